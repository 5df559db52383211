package node

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

// Drain is the open drain of a node.
type Drain struct {
	entity.Transition
	Scope       contract.DrainScope `json:"scope"`
	Parallelism int                 `json:"parallelism,omitempty"`
	// Sent is the progress that it was sent last.
	Sent contract.DrainProgress `json:"sent"`
}

// Drains is the part of a node's state that is about its drains.
type Drains struct {
	// Evacuees is the last observation of the instances that are asked to leave the node.
	Evacuees *contract.EvacueesObservation `json:"evacuees,omitempty"`
	// Wanted is a drain that a person has requested and that was not opened yet.
	Wanted *Drain `json:"wanted,omitempty"`
	// OpenDrain is the one under way, Count numbers them, and Last is the outcome of the last one.
	OpenDrain *Drain          `json:"open,omitempty"`
	Count     int             `json:"count,omitempty"`
	Last      *entity.Outcome `json:"last,omitempty"`
	// Tainted is set once a drain has completed for the taint. Where the last one did not, for example because it was
	// terminated, another one is opened at TaintAgain.
	Tainted    bool      `json:"tainted,omitempty"`
	TaintAgain time.Time `json:"taintAgain,omitzero"`
	// Cordoned reports whether the node was cordoned when it was last observed. Uncordoned reports whether its cordon
	// has ended since, while guests were to leave: their evictions have to be taken back.
	Cordoned   bool `json:"cordoned,omitempty"`
	Uncordoned bool `json:"uncordoned,omitempty"`
	// Again is when another one is opened for instances that were asked to leave and stay, after Idle in a row that
	// have moved none.
	Again time.Time `json:"again,omitzero"`
	Idle  int       `json:"idle,omitempty"`
}

// Where guests that were asked to leave are still there after a drain, another one begins after a pause: firstAgain,
// doubled with each drain that has moved none.
const (
	firstAgain = time.Minute
	mostIdle   = 7 // some two hours
)

// observeEvacuees folds in crdwatch's observation of the instances that are asked to leave.
func (s *State) observeEvacuees(o contract.EvacueesObservation) {
	old := s.Evacuees
	if old != nil && o.Epoch <= old.Epoch && !entity.Newer(o.ResourceVersion, old.ResourceVersion) {
		return
	}
	if s.Evacuees = &o; old == nil || old.Marked != o.Marked {
		s.Again, s.Idle = time.Time{}, 0
	}
}

// markedInstances returns how many instances are asked to leave the node.
func (s *State) markedInstances() int {
	if s.Evacuees == nil {
		return 0
	}
	return s.Evacuees.Marked
}

// openTransition returns the open drain for the loop, or nil.
func (s *State) openTransition() *entity.Transition {
	if s.OpenDrain == nil {
		return nil
	}
	return &s.OpenDrain.Transition
}

// endFinishedCordon ends what was for the node's cordon and taint: the completion of a drain, a drain, and the hold
// that a cancelled drain has left. The end of a cordon also takes back the evictions that kubectl drain has requested:
// on a node that was never cordoned they are the descheduler's, and stay.
func (s *State) endFinishedCordon() {
	if s.Node == nil || s.Node.Gone {
		return
	}
	if s.Cordoned && !s.Node.Unschedulable && !s.Node.Drain && (s.OpenDrain != nil || s.markedInstances() > 0) &&
		s.HasChange(contract.ChangeAfterFirst) {
		s.Uncordoned = true
	}
	if s.Node.Unschedulable || s.OpenDrain == nil && s.markedInstances() == 0 {
		s.Uncordoned = false // cordoned again, or nothing is left to take back
	}
	if s.Cordoned = s.Node.Unschedulable; s.Node.Drain {
		return
	}
	s.Tainted, s.TaintAgain = false, time.Time{}
	if !s.Node.Unschedulable {
		s.Wanted = nil
		if s.OpenDrain != nil {
			s.OpenDrain.Scope = contract.ScopeMarked
		}
	}
	if s.Hold != nil && s.Hold.Cancelled && !s.Node.Unschedulable && s.markedInstances() == 0 && s.OpenDrain == nil {
		s.Hold = nil
	}
}

// decideDrain returns the next step of drains.
func (s *State) decideDrain(now time.Time) decision {
	if s.OpenDrain != nil {
		return s.OpenDrain.Decide(now, func(time.Time) decision {
			if s.progress() != s.OpenDrain.Sent {
				return decision{Action: actSignal, Why: "its progress has changed"}
			}
			return decision{Waiting: waits.For(waits.Drain)}
		})
	}
	if due := s.dueDrain(now); due != nil {
		return decision{Action: entity.ActOpen, Operation: contract.OperationDrain, Why: due.Why}
	}
	var d decision
	if s.Hold == nil && s.markedInstances() > 0 {
		d.WakeAt = s.Again
	}
	if s.Hold == nil && s.Node.Drain && !s.Tainted {
		d = d.WakeBy(s.TaintAgain)
	}
	return d
}

// dueDrain returns the drain that is to be opened now, or nil.
func (s *State) dueDrain(now time.Time) *Drain {
	d := &Drain{Scope: contract.ScopeAll}
	switch {
	case s.Wanted != nil:
		return s.Wanted
	case s.Uncordoned && s.markedInstances() > 0:
		d.Why, d.Scope = "the node is not cordoned any more", contract.ScopeMarked
	case s.Hold != nil:
		return nil
	case s.Node.Drain && !s.Tainted && !now.Before(s.TaintAgain):
		d.Why = "the node has the drain taint"
	case s.markedInstances() > 0 && !now.Before(s.Again):
		d.Why = fmt.Sprintf("the pods of %d instances were to be evicted", s.markedInstances())
		if !s.Node.Drain {
			d.Scope = contract.ScopeMarked
		}
	default:
		return nil
	}
	return d
}

// isEnding reports whether the open drain is to end with the node's cordon. One that has been signalled so ends, also
// when the node is cordoned again.
func (s *State) isEnding() bool { return s.Uncordoned || s.OpenDrain.Sent.Uncordoned }

// progress returns the progress for the open drain.
func (s *State) progress() contract.DrainProgress {
	p := contract.DrainProgress{Scope: s.OpenDrain.Scope, Parallelism: s.OpenDrain.Parallelism,
		Marked:     s.markedInstances(),
		Uncordoned: s.isEnding(), Gone: s.Node.Gone}
	if s.Node.Drain {
		p.Scope = contract.ScopeAll
	}
	return p
}

// openDrain opens the drain that is due.
func (e *instance) openDrain(ctx workflow.Context, step decision) error {
	s := &e.state
	now := workflow.Now(ctx)
	drain := *s.dueDrain(now)
	drain.Operation, drain.Since = contract.OperationDrain, now
	err := e.loop.OpenTransition(ctx, &drain.Transition, entity.Opening{
		Object: contract.Object{Name: s.Name, UID: s.Node.UID}, Entity: contract.NodeID(s.Name), Count: &s.Count,
		ID:   func(n int) string { return contract.DrainID(s.Name, n) },
		Type: contract.WorkflowDrain,
		Input: contract.DrainInput{Node: s.Name, UID: s.Node.UID, Scope: drain.Scope, Parallelism: drain.Parallelism,
			Marked: s.markedInstances(), Uncordoned: s.Uncordoned, Why: drain.Why, Actor: drain.Actor},
	})
	if entity.RecordResult(ctx, &s.Failure, step.Step(), "", err) != nil {
		return err
	}
	s.Wanted, s.OpenDrain = nil, &drain
	s.OpenDrain.Sent = s.progress()
	s.RecordOpened(&drain.Transition)
	return nil
}

// recordDrainClosed records the outcome of the open drain. One that a person has cancelled holds those that would
// follow.
func (e *instance) recordDrainClosed(ctx workflow.Context, c contract.TransitionClosed, o entity.Outcome) {
	s := &e.state
	drain, now := *s.OpenDrain, o.At
	s.OpenDrain, s.Uncordoned = nil, s.Uncordoned && !drain.Sent.Uncordoned
	var r contract.DrainResult
	if err := entity.Unmarshal(c.Result, &r); err != nil {
		r = contract.DrainResult{}
	}
	if r.Moved+r.Evicted+r.Left > 0 {
		s.Idle = 0
	}
	s.Idle = min(s.Idle+1, mostIdle)
	s.Again = now.Add(firstAgain << (s.Idle - 1))
	// A taint that came too late for it still needs a drain, and so does one whose drain has failed.
	s.Tainted = s.Node != nil && s.Node.Drain && r.Scope != contract.ScopeMarked && c.Error == "" &&
		!drain.Sent.Uncordoned
	if s.TaintAgain = (time.Time{}); c.Error != "" {
		s.TaintAgain = s.Again
	}
	if r.CancelledBy != "" && s.Hold == nil {
		s.Hold = &entity.Hold{Actor: r.CancelledBy, Since: now, Cancelled: true,
			Message: fmt.Sprintf("the drain was cancelled by %s (claimed); the controls %s and %s let another begin, "+
				"or the end of the node's cordon and taint",
				r.CancelledBy, contract.ControlRelease, contract.ControlDrain)}
	}
	o.Summary = r.Summary
	s.Last = &o
	s.RecordClosed(&drain.Transition, c, o)
}

// drainText returns the current details of drains, or "".
func (s *State) drainText() string {
	text := ""
	switch {
	case s.OpenDrain != nil:
		text = "\n\n" + s.OpenDrain.Text()
	case s.Hold != nil:
		text = "\n\nNo drain is begun: " + s.Hold.Message + "."
	}
	if s.Last != nil {
		text += "\n\n" + s.Last.Text()
	}
	return text
}
