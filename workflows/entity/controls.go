package entity

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Bounds of what a person writes into a control, in bytes.
const (
	maxActor  = 253
	maxReason = 512
)

// Control is one thing that a person may ask of an entity. Check and Apply are plain functions of the state: what is to
// be done in the world is the planner's to decide afterwards.
type Control struct {
	Name string
	// Does says in one sentence what it does; Temporal shows it.
	Does string
	// Check refuses what makes no sense now, in words for the person who asked. It must not change anything. nil:
	// always possible.
	Check func(contract.ControlRequest) error
	// Apply changes the state and says what it did. An error refuses after all.
	Apply func(now time.Time, r contract.ControlRequest) (string, error)
}

// OnControls offers each control as an Update and as a signal of the same name, and the history query.
func (l *Loop) OnControls(m *Manual, controls ...Control) error {
	l.manual = m
	for _, c := range controls {
		options := workflow.UpdateHandlerOptions{
			Description: c.Does,
			Validator:   func(_ workflow.Context, r contract.ControlRequest) error { return c.check(r) },
		}
		handler := func(ctx workflow.Context, r contract.ControlRequest) (contract.ControlAnswer, error) {
			summary, err := l.take(ctx, c, r)
			return contract.ControlAnswer{Summary: summary}, err
		}
		if err := workflow.SetUpdateHandlerWithOptions(l.ctx, c.Name, handler, options); err != nil {
			return fmt.Errorf("offering the control %s: %w", c.Name, err)
		}
		OnSignal(l, c.Name, func(r contract.ControlRequest) {
			if _, err := l.take(l.ctx, c, r); err != nil {
				now := workflow.Now(l.ctx)
				m.Refused = &Refusal{Control: c.Name, Actor: plain(r.Actor, maxActor), Why: Message(err), At: now,
					Until: now.Add(refusedFor)}
			}
		})
	}
	if err := workflow.SetQueryHandler(l.ctx, contract.QueryHistory, func() ([]contract.OperationRecord, error) {
		return m.Records, nil
	}); err != nil {
		return fmt.Errorf("setting the history query: %w", err)
	}
	return nil
}

func (c Control) check(r contract.ControlRequest) error {
	if err := legible(r); err != nil {
		return err
	}
	if c.Check == nil {
		return nil
	}
	return c.Check(r)
}

// take checks a control once more, for much may have happened since its Update was admitted, applies it and notes who
// asked.
func (l *Loop) take(ctx workflow.Context, c Control, r contract.ControlRequest) (string, error) {
	if err := c.check(r); err != nil {
		return "", err
	}
	now := workflow.Now(ctx)
	summary, err := c.Apply(now, r)
	if err != nil {
		return "", err
	}
	l.manual.Refused = nil
	l.manual.Record(contract.OperationRecord{
		Operation: contract.Operation(c.Name), Why: r.Reason, Actor: r.Actor, Claimed: true, Since: now, Until: now,
		Outcome: OutcomeDone,
	})
	workflow.GetLogger(ctx).Info("control", "control", c.Name, "claimed actor", r.Actor, "reason", r.Reason, "summary",
		summary)
	l.Wake()
	return summary, nil
}

// legible refuses a request that nobody could make sense of later: who asked stands in the history, and is shown.
func legible(r contract.ControlRequest) error {
	switch {
	case strings.TrimSpace(r.Actor) == "":
		return fmt.Errorf(`actor: required: who asks, for example {"actor": "alice", "reason": "maintenance"}`)
	case len(r.Actor) > maxActor:
		return fmt.Errorf("actor: has %d bytes, at most %d are allowed", len(r.Actor), maxActor)
	case len(r.Reason) > maxReason:
		return fmt.Errorf("reason: has %d bytes, at most %d are allowed", len(r.Reason), maxReason)
	case r.Actor != plain(r.Actor, maxActor):
		return fmt.Errorf("actor: has characters that cannot be shown")
	case r.Reason != plain(r.Reason, maxReason):
		return fmt.Errorf("reason: has characters that cannot be shown; write one line")
	}
	return nil
}

// plain drops what cannot be printed on one line, and cuts to n bytes.
func plain(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	return contract.Cut(s, n)
}
