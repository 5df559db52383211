package delivery

import (
	"context"
	"time"

	"github.com/rs/zerolog"
)

// window keeps the sender from running ahead of the control workers. After each window it waits until the last workflow
// has processed what it was sent, but no longer than windowWait: that workflow may be unable to make progress, or no
// control worker may run. One of a window is a sample: where the server uses fairness keys, that of a small namespace
// is served sooner.
type window struct {
	size int
	// waitProcessed returns when a workflow has processed what it was sent.
	waitProcessed func(ctx context.Context, workflow string) error
	log           zerolog.Logger
	sent          int       // of this window
	last          string    // the workflow of the last one
	at            time.Time // when it was sent
}

// windowWait is how long the window waits for one workflow at most.
const windowWait = 3 * time.Second

// wait returns when a workflow may be sent something.
func (w *window) wait(ctx context.Context, workflow string) {
	if time.Since(w.at) >= windowWait {
		w.sent = 0
	}
	if w.sent == w.size {
		w.sent = 0
		waiting, cancel := context.WithTimeout(ctx, windowWait)
		err := w.waitProcessed(waiting, w.last)
		cancel()
		if err != nil {
			w.log.Debug().Err(err).Str("workflow_id", w.last).Msg("stopped waiting for a workflow")
		}
	}
	w.sent++
	w.last, w.at = workflow, time.Now()
}
