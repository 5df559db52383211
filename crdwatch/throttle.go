package crdwatch

import (
	"context"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	// throttleWindow is how many objects that have not changed are sent until the workflow of the last one is waited
	// for, and throttleWait for how long at most: it may be past help, or no control worker may run.
	throttleWindow = 100
	throttleWait   = 3 * time.Second
)

// throttle is how fast objects are sent that have not changed: at a rate, and no faster than control workers take them
// in. A task queue of Temporal's is served in the order of arrival, so what somebody asks for meanwhile would wait
// behind all of it; the longer, the more of the workflows have to be replayed first. One of a window is a sample: where
// the server lets namespaces take turns, that of a small one is served sooner.
type throttle struct {
	limiter *rate.Limiter
	// takenIn returns when a workflow has taken in what it was sent.
	takenIn func(ctx context.Context, workflow string) error
	log     zerolog.Logger
	sent    int    // of this window
	last    string // the workflow of the last one
}

// wait returns when an object may be sent to its workflow. At the rate rate.Inf that is at once.
func (t *throttle) wait(ctx context.Context, workflow string) error {
	if t.limiter.Limit() != rate.Inf {
		if t.sent == throttleWindow {
			t.sent = 0
			waiting, cancel := context.WithTimeout(ctx, throttleWait)
			err := t.takenIn(waiting, t.last)
			cancel()
			if err != nil {
				t.log.Debug().Err(err).Str("workflow_id", t.last).Msg("going on with what has not changed")
			}
		}
		t.sent++
		t.last = workflow
	}
	return t.limiter.Wait(ctx)
}

// holdsPause is how often it is looked at whether a delivery is still on its way.
const holdsPause = 50 * time.Millisecond

// takenIn asks a workflow something once everything has been delivered to it. Temporal has that answered behind the
// tasks that wait then.
func (r *resyncer) takenIn(ctx context.Context, workflow string) error {
	err := wait.PollUntilContextCancel(ctx, holdsPause, true, func(context.Context) (bool, error) {
		return !r.differ.queue.Holds(workflow), nil
	})
	if err == nil {
		_, err = r.temporal.QueryWorkflow(ctx, workflow, "", contract.QueryPlan)
	}
	return err
}
