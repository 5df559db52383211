package entity

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Child is one run of a transition's workflow, which hears from its entity how far what it waits for is. P is that
// progress.
type Child[P any] struct {
	// Started is when it began, and Latest is the progress that its entity has signalled last.
	Started time.Time
	Latest  P
	record  string
}

// Record is who asked for a transition, why, and who approved it ("": nobody had to), as claimed.
type Record struct{ Why, Actor, ApprovedBy string }

// NewChild begins to listen. heard is what is done after each signal; nil: nothing.
func NewChild[P any](ctx workflow.Context, r Record, heard func(workflow.Context)) *Child[P] {
	c := &Child[P]{Started: workflow.Now(ctx), record: r.text()}
	ch := workflow.GetSignalChannel(ctx, contract.SignalProgress)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var p P
			if ch.Receive(ctx, &p); ctx.Err() != nil {
				return
			}
			c.Latest = p
			if heard != nil {
				heard(ctx)
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

// Say shows who asked for what, and what happens now, in paragraphs.
func (c *Child[P]) Say(ctx workflow.Context, paragraphs ...string) {
	text := strings.Join(append([]string{c.record}, paragraphs...), "\n\n")
	workflow.SetCurrentDetails(ctx, strings.TrimSpace(text))
}

// Took is for how long it has run.
func (c *Child[P]) Took(ctx workflow.Context, round time.Duration) time.Duration {
	return workflow.Now(ctx).Sub(c.Started).Round(round)
}
