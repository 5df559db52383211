package launcher

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/virtflow/virtflow/launcher/guest"
)

const (
	// KubeVirt's pauses before a guest that an I/O error paused is resumed.
	firstResumption, longestResumption = 10 * time.Second, 3 * time.Minute
	resumptionSteps                    = 8
)

// resumption resumes a guest that an I/O error paused: storage comes back, and space is made. What fails again pauses
// it again. It belongs to the launcher's loop.
type resumption struct {
	due     <-chan time.Time // when to resume; nil: not
	backoff wait.Backoff
	last    time.Time // attempt
}

// follow takes why the guest is paused; "": it is not.
func (r *resumption) follow(why guest.PauseReason) {
	switch {
	case why != guest.ByIOError && why != guest.ByNoSpace:
		r.due = nil
	case r.due == nil:
		r.due = time.After(r.pause(time.Now()))
	}
}

// tried notes an attempt, which is repeated unless follow hears that the guest goes on.
func (r *resumption) tried() {
	now := time.Now()
	r.last = now
	r.due = time.After(r.pause(now))
}

// pause is how long to wait before the next attempt: longer each time, until the guest has run for a while.
func (r *resumption) pause(now time.Time) time.Duration {
	if now.Sub(r.last) > 2*longestResumption {
		r.backoff = wait.Backoff{Duration: firstResumption, Factor: 2, Steps: resumptionSteps, Cap: longestResumption}
	}
	return r.backoff.Step()
}
