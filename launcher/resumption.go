package launcher

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/virtflow/virtflow/launcher/guest"
)

const (
	// KubeVirt's back-off for the resumption of a guest that an I/O error paused.
	firstResumption, longestResumption = 10 * time.Second, 3 * time.Minute
	resumptionSteps                    = 8
)

// resumption resumes a guest that an I/O error paused: the storage may be back, or have free space again. If the error
// persists, it pauses the guest again. It belongs to the launcher's loop.
type resumption struct {
	due     <-chan time.Time // when to resume; nil: not
	backoff wait.Backoff
	last    time.Time // attempt
	busy    atomic.Bool
}

// follow records why the guest is paused; "" if it is not.
func (r *resumption) follow(why guest.PauseReason) {
	switch {
	case why != guest.ByIOError && why != guest.ByNoSpace:
		r.due = nil
	case r.due == nil:
		r.due = time.After(r.nextDelay(time.Now()))
	}
}

// recordAttempt records an attempt, which is repeated until follow records that the guest runs.
func (r *resumption) recordAttempt() {
	now := time.Now()
	r.last = now
	r.due = time.After(r.nextDelay(now))
}

// nextDelay returns the time until the next attempt: longer each time, until the guest has run for a while.
func (r *resumption) nextDelay(now time.Time) time.Duration {
	if now.Sub(r.last) > 2*longestResumption {
		r.backoff = wait.Backoff{Duration: firstResumption, Factor: 2, Steps: resumptionSteps, Cap: longestResumption}
	}
	return r.backoff.Step()
}

// resumeAfterError resumes a guest that an I/O error paused, unless it is being moved.
func (l *Launcher) resumeAfterError() {
	l.resumption.recordAttempt()
	if l.checkNotMoving() == nil {
		l.act(&l.resumption.busy, "failed to resume guest after I/O error", l.hypervisor.Resume)
	}
}
