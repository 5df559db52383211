package entity

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
)

// Child is one run of a transition's workflow. Its entity signals it the progress P of what it waits for.
type Child[P any] struct {
	// Started is when it began, and Latest is the progress that was signalled last.
	Started time.Time
	Latest  P
	record  string
}

// Record has who requested a transition, why, and who approved it ("": no approval was needed), as claimed.
type Record struct{ Why, Actor, ApprovedBy string }

// NewChild begins to receive signals. onProgress is called after each one; nil: nothing is.
func NewChild[P any](ctx workflow.Context, r Record, onProgress func(workflow.Context)) *Child[P] {
	c := &Child[P]{Started: workflow.Now(ctx), record: r.text()}
	ch := workflow.GetSignalChannel(ctx, contract.SignalProgress)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var p P
			if ch.Receive(ctx, &p); ctx.Err() != nil {
				return
			}
			c.Latest = p
			if onProgress != nil {
				onProgress(ctx)
			}
		}
	})
	return c
}

func (r Record) text() string {
	who := ""
	if r.Actor != "" {
		who = "Asked for by " + r.Actor + ". "
	}
	if r.ApprovedBy != "" {
		who += "Approved by " + r.ApprovedBy + " (claimed). "
	}
	return fmt.Sprintf("%sBecause %s.", who, r.Why)
}

// SetDetails sets the workflow's details: who requested it and why, and these paragraphs.
func (c *Child[P]) SetDetails(ctx workflow.Context, paragraphs ...string) {
	text := strings.Join(append([]string{c.record}, paragraphs...), "\n\n")
	workflow.SetCurrentDetails(ctx, strings.TrimSpace(text))
}

// Elapsed returns how long it has run.
func (c *Child[P]) Elapsed(ctx workflow.Context, round time.Duration) time.Duration {
	return workflow.Now(ctx).Sub(c.Started).Round(round)
}
