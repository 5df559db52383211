package node

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// actSignal signals to the open drain what has changed.
const actSignal entity.Action = "signal the drain"

// Drain is the open drain of a node.
type Drain struct {
	entity.Transition
	Scope       contract.DrainScope `json:"scope"`
	Parallelism int                 `json:"parallelism,omitempty"`
	// Sent is what it was last told.
	Sent contract.DrainProgress `json:"sent"`
}

// Drains is the part of a node's state that its drains are about.
type Drains struct {
	// Evacuees is what was seen last of the instances that are asked to leave the node.
	Evacuees *contract.EvacueesObservation `json:"evacuees,omitempty"`
	// Wanted is a drain that a person asked for and that was not opened yet.
	Wanted *Drain `json:"wanted,omitempty"`
	// Open is the one under way, Count numbers them, and Last is how the last one went.
	Open  *Drain          `json:"open,omitempty"`
	Count int             `json:"count,omitempty"`
	Last  *entity.Outcome `json:"last,omitempty"`
	// Tainted says that the taint was acted on: one drain has ended under it, as it should. Where the last one did not,
	// as one that somebody has terminated, another one is opened at TaintAgain.
	Tainted    bool      `json:"tainted,omitempty"`
	TaintAgain time.Time `json:"taintAgain,omitzero"`
	// Again is when another one is opened for instances that were asked to leave and stay, after Idle in a row that
	// have moved nobody.
	Again time.Time `json:"again,omitzero"`
	Idle  int       `json:"idle,omitempty"`
}

// Where a drain has left somebody behind who is asked to leave, another one begins after a pause: firstAgain, doubled
// with each that has moved nobody.
const (
	firstAgain = time.Minute
	mostIdle   = 7 // some two hours
)

// observeEvacuees folds what crdwatch saw of the instances that are asked to leave.
func (s *State) observeEvacuees(o contract.EvacueesObservation) {
	old := s.Evacuees
	if old != nil && o.Epoch <= old.Epoch && !entity.Newer(o.ResourceVersion, old.ResourceVersion) {
		return
	}
	if s.Evacuees = &o; old == nil || old.Marked != o.Marked {
		s.Again, s.Idle = time.Time{}, 0
	}
}

func (s *State) marked() int {
	if s.Evacuees == nil {
		return 0
	}
	return s.Evacuees.Marked
}

// open is the open drain as the loop knows it, or nil.
func (s *State) open() *entity.Transition {
	if s.Open == nil {
		return nil
	}
	return &s.Open.Transition
}

// follow ends what is over with the node's cordon and taint: a taint that was acted on, a drain of all guests, and the
// hold that a cancelled drain has left.
func (s *State) follow() {
	if s.Node == nil || s.Node.Gone || s.Node.Drain {
		return
	}
	s.Tainted, s.TaintAgain = false, time.Time{}
	if !s.Node.Unschedulable {
		s.Wanted = nil
		if s.Open != nil {
			s.Open.Scope = contract.ScopeMarked
		}
	}
	if s.Hold != nil && s.Hold.Cancelled && !s.Node.Unschedulable && s.marked() == 0 && s.Open == nil {
		s.Hold = nil
	}
}

// draining says what is to be done next about drains.
func (s *State) draining(now time.Time) entity.Decision {
	if s.Open != nil {
		return s.Open.Decide(now, func(time.Time) entity.Decision {
			if s.progress() != s.Open.Sent {
				return entity.Decision{Action: actSignal, Why: "it is to know what has changed"}
			}
			return entity.Decision{Waiting: "the drain"}
		})
	}
	if d := s.due(now); d != nil {
		return entity.Decision{Action: entity.ActOpen, Operation: contract.OperationDrain, Why: d.Why}
	}
	var d entity.Decision
	if s.Hold == nil && s.marked() > 0 {
		d.WakeAt = s.Again
	}
	if s.Hold == nil && s.Node.Drain && !s.Tainted {
		d = d.By(s.TaintAgain)
	}
	return d
}

// due is the drain that is to be opened now, or nil.
func (s *State) due(now time.Time) *Drain {
	d := &Drain{Scope: contract.ScopeAll}
	switch {
	case s.Wanted != nil:
		return s.Wanted
	case s.Hold != nil:
		return nil
	case s.Node.Drain && !s.Tainted && !now.Before(s.TaintAgain):
		d.Why = "the node has the taint " + contract.TaintDrain
	case s.marked() > 0 && !now.Before(s.Again):
		d.Why = fmt.Sprintf("the pods of %d instances were to be evicted", s.marked())
		if !s.Node.Drain {
			d.Scope = contract.ScopeMarked
		}
	default:
		return nil
	}
	return d
}

// progress is what the open drain is to know.
func (s *State) progress() contract.DrainProgress {
	p := contract.DrainProgress{Scope: s.Open.Scope, Parallelism: s.Open.Parallelism, Marked: s.marked(),
		Gone: s.Node.Gone}
	if s.Node.Drain {
		p.Scope = contract.ScopeAll
	}
	return p
}

// drain does a step about drains.
func (e *instance) drain(ctx workflow.Context, d entity.Decision) error {
	s := &e.state
	switch d.Action {
	case entity.ActOpen:
		return e.openDrain(ctx, d)
	case actSignal:
		s.Open.Sent = s.progress()
		return e.loop.SignalOpen(ctx, &s.Open.Transition, s.Open.Sent)
	case entity.ActAsk:
		return e.loop.AskOpen(ctx, &s.Open.Transition)
	default:
		return fmt.Errorf("a node has no step %q", d.Action)
	}
}

func (e *instance) openDrain(ctx workflow.Context, decision entity.Decision) error {
	s := &e.state
	now := workflow.Now(ctx)
	d := *s.due(now)
	d.Operation, d.Since = contract.OperationDrain, now
	err := e.loop.OpenTransition(ctx, &d.Transition, entity.Opening{
		Object: contract.Object{Name: s.Name, UID: s.Node.UID}, Entity: contract.NodeID(s.Name), Count: &s.Count,
		ID:   func(n int) string { return contract.DrainID(s.Name, n) },
		Type: contract.WorkflowDrain,
		Input: contract.DrainInput{Node: s.Name, UID: s.Node.UID, Scope: d.Scope, Parallelism: d.Parallelism,
			Marked: s.marked(), Why: d.Why, Actor: d.Actor},
	})
	if entity.Settle(ctx, &s.Failure, decision.Step(), "", err) != nil {
		return err
	}
	s.Wanted, s.Open = nil, &d
	s.Open.Sent = s.progress()
	s.Opened(&d.Transition)
	return nil
}

// drained notes how the open drain went. One that a person has cancelled holds those that would follow.
func (e *instance) drained(ctx workflow.Context, c contract.TransitionClosed, o entity.Outcome) {
	s := &e.state
	d, now := *s.Open, o.At
	s.Open = nil
	var r contract.DrainResult
	if err := entity.Unmarshal(c.Result, &r); err != nil {
		r = contract.DrainResult{}
	}
	if r.Moved+r.Evicted+r.Left > 0 {
		s.Idle = 0
	}
	s.Idle = min(s.Idle+1, mostIdle)
	s.Again = now.Add(firstAgain << (s.Idle - 1))
	// A taint that came too late for it is still to be acted on, and so is one whose drain has failed.
	s.Tainted = s.Node != nil && s.Node.Drain && r.Scope != contract.ScopeMarked && c.Error == ""
	if s.TaintAgain = (time.Time{}); c.Error != "" {
		s.TaintAgain = s.Again
	}
	if r.CancelledBy != "" && s.Hold == nil {
		s.Hold = &entity.Hold{Actor: r.CancelledBy, Since: now, Cancelled: true,
			Message: fmt.Sprintf("the drain was cancelled by %s (claimed); the controls %s and %s let another begin, "+
				"or the end of the node's cordon and taint", r.CancelledBy, contract.ControlRelease, contract.ControlDrain)}
	}
	o.Summary = r.Summary
	s.Last = &o
	s.Closed(&d.Transition, c, o)
}

// drainText is what the current details say of drains, or "".
func (s *State) drainText() string {
	text := ""
	switch {
	case s.Open != nil:
		text = "\n\n" + s.Open.Doing()
	case s.Hold != nil:
		text = "\n\nNo drain is begun: " + s.Hold.Message + "."
	}
	if s.Last != nil {
		text += "\n\n" + s.Last.Text()
	}
	return text
}
