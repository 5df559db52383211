package entity

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/waits"
)

// Action names a step of an entity.
type Action string

// Steps that several entities have. Carried states have these names, so they stay.
const (
	ActNone   Action = ""
	ActFinish Action = "finish"
	ActNext   Action = "move on to the newer object"
	ActRead   Action = "read what is true"
	ActOpen   Action = "open a transition"
	ActCancel Action = "cancel the transition"
	ActAsk    Action = "ask whether the transition is still open"
	ActWrite  Action = "write the status"
)

// Decision is a planner's answer before it is bound to activities and children.
type Decision struct {
	Action Action
	// Operation is the one of the transition that ActOpen opens.
	Operation contract.Operation
	// Object is the UID of the step's object, where there may be several.
	Object string
	Why    string
	// WakeAt is when to plan again (zero: when a signal arrives), and Waiting is what is waited for, where there is no
	// step.
	WakeAt  time.Time
	Waiting waits.Wait
}

// Step returns the step's name as Failure has it.
func (d Decision) Step() string {
	if d.Action == ActOpen {
		return string(d.Operation)
	}
	return string(d.Action)
}

// Or sets what is waited for where there is no step.
func (d Decision) Or(waiting waits.Wait) Decision {
	if d.Action == ActNone {
		d.Waiting = waiting
	}
	return d
}

// WakeBy sets a time at which to plan again at the latest, where there is no step. The zero time is never.
func (d Decision) WakeBy(at time.Time) Decision {
	if d.Action == ActNone && !at.IsZero() && (d.WakeAt.IsZero() || at.Before(d.WakeAt)) {
		d.WakeAt = at
	}
	return d
}

// Plan binds a decision to the function that does it. The plan shows the last failure, too.
func (d Decision) Plan(last *Failure, do func(workflow.Context, Decision) error) Plan {
	p := Plan{WakeAt: d.WakeAt, Waiting: d.Waiting}
	if last != nil {
		p.Trouble = last.Message
	}
	switch d.Action {
	case ActNone:
	case ActFinish:
		p.Finish = true
	default:
		name := string(d.Action)
		if d.Action == ActOpen {
			name += ": " + string(d.Operation)
		}
		p.Step = &Step{Name: name, Why: d.Why, Do: func(ctx workflow.Context) error { return do(ctx, d) }}
	}
	return p
}

// Sooner returns the earlier of two times; zero is never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
