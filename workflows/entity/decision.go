package entity

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Action names a step of an entity.
type Action string

// Steps that several entities take.
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

// Decision is what a planner answers before it is bound to activities and children.
type Decision struct {
	Action Action
	// Operation is that of the transition which ActOpen opens.
	Operation contract.Operation
	// Object is the UID of what the step is about, where there may be several.
	Object string
	Why    string
	// WakeAt is when to ask again (zero: when something arrives), and Waiting what is waited for, where there is
	// nothing to do.
	WakeAt  time.Time
	Waiting string
}

// Step names what is to be done, as a Failure of it does.
func (d Decision) Step() string {
	if d.Action == ActOpen {
		return string(d.Operation)
	}
	return string(d.Action)
}

// Or says what is waited for where there is nothing to do.
func (d Decision) Or(waiting string) Decision {
	if d.Action == ActNone {
		d.Waiting = waiting
	}
	return d
}

// By asks again at a time at the latest, where there is nothing to do. The zero time is never.
func (d Decision) By(at time.Time) Decision {
	if d.Action == ActNone && !at.IsZero() && (d.WakeAt.IsZero() || at.Before(d.WakeAt)) {
		d.WakeAt = at
	}
	return d
}

// Plan binds a decision to what does it. What failed last shows with it.
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

// Sooner is the earlier of two times, where zero is never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
