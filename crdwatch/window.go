package crdwatch

import (
	"context"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/virtflow/virtflow/workflows/contract"
)

// window keeps what is sent from running ahead of the control workers: of each window the last workflow is waited for
// until it has taken in what it was sent, but no longer than windowWait: it may be past help, or no control worker may
// run. One of a window is a sample: where the server lets namespaces take turns, that of a small one is served sooner.
type window struct {
	size int
	// takenIn returns when a workflow has taken in what it was sent; nil: nothing is waited for.
	takenIn func(ctx context.Context, workflow string) error
	log     zerolog.Logger
	sent    int       // of this window
	last    string    // the workflow of the last one
	at      time.Time // when it was sent
}

// windowWait is how long one workflow is waited for at most.
const windowWait = 3 * time.Second

// wait returns when a workflow may be sent something.
func (w *window) wait(ctx context.Context, workflow string) {
	if w.takenIn == nil {
		return
	}
	if time.Since(w.at) >= windowWait {
		w.sent = 0
	}
	if w.sent == w.size {
		w.sent = 0
		waiting, cancel := context.WithTimeout(ctx, windowWait)
		err := w.takenIn(waiting, w.last)
		cancel()
		if err != nil {
			w.log.Debug().Err(err).Str("workflow_id", w.last).Msg("going on without knowing what is taken in")
		}
	}
	w.sent++
	w.last, w.at = workflow, time.Now()
}

// holdsPause is how often it is looked at whether a delivery is still on its way.
const holdsPause = 10 * time.Millisecond

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
