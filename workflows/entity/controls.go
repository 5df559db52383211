package entity

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
)

// Bounds of the texts that a person may send with a control, in bytes.
const (
	maxActor  = 253
	maxReason = 512
)

// Control is one command that a person may send to an entity. Check and Apply only read and change the state; the
// planner derives all further steps from it.
type Control struct {
	Name string
	// Does describes in one sentence what it does; Temporal shows it.
	Does string
	// Check refuses the control where it is not possible now, with an error for the person who sent it. It must not
	// change anything. nil: always possible.
	Check func(contract.ControlRequest) error
	// Apply changes the state and returns what it did, as a sentence. An error refuses the control after all.
	Apply func(now time.Time, r contract.ControlRequest) (string, error)
}

// OnControls registers each control as an Update and as a signal of the same name, and the history query.
func (l *Loop) OnControls(m *Manual, controls ...Control) error {
	l.manual = m
	for _, c := range controls {
		options := workflow.UpdateHandlerOptions{
			Description: c.Does,
			Validator:   func(_ workflow.Context, r contract.ControlRequest) error { return c.check(r) },
		}
		handler := func(ctx workflow.Context, r contract.ControlRequest) (contract.ControlAnswer, error) {
			summary, err := l.applyControl(ctx, c, r)
			return contract.ControlAnswer{Summary: summary}, err
		}
		if err := workflow.SetUpdateHandlerWithOptions(l.ctx, c.Name, handler, options); err != nil {
			return fmt.Errorf("offering the control %s: %w", c.Name, err)
		}
		OnSignal(l, c.Name, func(r contract.ControlRequest) {
			if _, err := l.applyControl(l.ctx, c, r); err != nil {
				now := workflow.Now(l.ctx)
				m.Refused = &Refusal{Control: c.Name, Actor: toOneLine(r.Actor, maxActor), Why: Message(err), At: now,
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

// check returns why a request for the control is refused; nil: it is accepted.
func (c Control) check(r contract.ControlRequest) error {
	if err := checkLegible(r); err != nil {
		return err
	}
	if c.Check == nil {
		return nil
	}
	return c.Check(r)
}

// applyControl checks a control again, since the state may have changed after its Update was admitted, applies it and
// records the actor.
func (l *Loop) applyControl(ctx workflow.Context, c Control, r contract.ControlRequest) (string, error) {
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
	workflow.GetLogger(ctx).Info("applied control", "control", c.Name, "claimed actor", r.Actor, "reason", r.Reason,
		"summary", summary)
	l.Wake()
	return summary, nil
}

// checkLegible refuses a request without a legible actor or reason: histories and conditions show both.
func checkLegible(r contract.ControlRequest) error {
	switch {
	case strings.TrimSpace(r.Actor) == "":
		return fmt.Errorf(`actor: required, for example {"actor": "alice", "reason": "maintenance"}`)
	case len(r.Actor) > maxActor:
		return fmt.Errorf("actor: has %d bytes, at most %d are allowed", len(r.Actor), maxActor)
	case len(r.Reason) > maxReason:
		return fmt.Errorf("reason: has %d bytes, at most %d are allowed", len(r.Reason), maxReason)
	case r.Actor != toOneLine(r.Actor, maxActor):
		return fmt.Errorf("actor: has characters that cannot be shown")
	case r.Reason != toOneLine(r.Reason, maxReason):
		return fmt.Errorf("reason: has characters that cannot be shown; write one line")
	}
	return nil
}

// toOneLine drops what cannot be printed on one line, and cuts to n bytes.
func toOneLine(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	return contract.Cut(s, n)
}
