package delivery

import (
	"context"

	"golang.org/x/time/rate"
)

// resyncWindow is how many unchanged objects are sent before the throttle waits until the workflow of the last one has
// processed it.
const resyncWindow = 100

// throttle limits how fast unchanged objects are sent: to a rate, and to what control workers process. Temporal serves
// a task queue in the order of arrival, so that a user's request would wait behind all of them; the longer, the more of
// the workflows have to be replayed first.
type throttle struct {
	limiter *rate.Limiter
	window  window
}

// wait returns when an object may be sent to its workflow.
func (t *throttle) wait(ctx context.Context, workflow string) error {
	t.window.wait(ctx, workflow)
	return t.limiter.Wait(ctx)
}
