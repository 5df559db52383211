package launcher

import (
	"time"

	"github.com/virtflow/virtflow/launcher/lifecycle"
)

// gracePeriod is the time that the guest has to shut down once the pod is being terminated. Shortened is for any
// goroutine, the rest belongs to the loop.
type gracePeriod struct {
	length time.Duration
	// shortened receives grace periods that are shorter.
	shortened  chan time.Duration
	terminated <-chan struct{}  // SIGTERM; nil once it has been received
	begun      time.Time        // zero before that
	expired    <-chan time.Time // nil: not running
}

// begin starts the grace period, and returns the lifecycle's input for SIGTERM.
func (g *gracePeriod) begin() lifecycle.Input {
	g.terminated, g.begun, g.expired = nil, time.Now(), time.After(g.length)
	if g.length == 0 {
		return lifecycle.StopNow
	}
	return lifecycle.Stop
}

// shorten makes the grace period shorter, never longer, and returns the lifecycle's input if it is over by that.
func (g *gracePeriod) shorten(to time.Duration) lifecycle.Input {
	if to >= g.length {
		return ""
	}
	if g.length = to; g.begun.IsZero() {
		return ""
	}
	if left := time.Until(g.begun.Add(to)); left > 0 {
		g.expired = time.After(left)
		return ""
	}
	g.expired = nil
	return lifecycle.StopNow
}

// expire ends the grace period, and returns the lifecycle's input for that.
func (g *gracePeriod) expire() lifecycle.Input {
	g.expired = nil
	return lifecycle.GracePeriodExpired
}
