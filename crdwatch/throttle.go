package crdwatch

import (
	"context"

	"golang.org/x/time/rate"
)

// resyncWindow is how many objects that have not changed are sent until the workflow of the last one is waited for.
const resyncWindow = 100

// throttle is how fast objects are sent that have not changed: at a rate, and no faster than control workers take them
// in. A task queue of Temporal's is served in the order of arrival, so what somebody asks for meanwhile would wait
// behind all of it; the longer, the more of the workflows have to be replayed first.
type throttle struct {
	limiter *rate.Limiter
	window  window
}

// wait returns when an object may be sent to its workflow. At the rate rate.Inf that is at once.
func (t *throttle) wait(ctx context.Context, workflow string) error {
	if t.limiter.Limit() != rate.Inf {
		t.window.wait(ctx, workflow)
	}
	return t.limiter.Wait(ctx)
}
