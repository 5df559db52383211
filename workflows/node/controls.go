package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// controls are what a person may ask of a node entity.
func (e *instance) controls(l *entity.Loop) []entity.Control {
	s := &e.state
	waits := func() bool { return s.Open == nil && s.marked() > 0 && !s.Again.IsZero() }
	end := func(time.Time) { s.Again = time.Time{} }
	return append(s.holdable().Controls(), s.drainControl(), entity.RetryNow(&s.Failure, waits, end),
		entity.Repair(l, s, sound))
}

// holdable is the node as a person is spoken to about its drains.
func (s *State) holdable() entity.Holdable {
	return entity.Holdable{
		Manual: &s.Manual, Name: "node",
		Hold: "No drain begins by itself until the control release.", Held: "No drain begins by itself.",
		Release: "Drains begin again by themselves.", Released: "Drains begin by themselves.",
	}
}

// drainControl begins a drain of a node that is cordoned or tainted. On another one, guests that are evicted would
// start again, and be evicted again.
func (s *State) drainControl() entity.Control {
	return entity.Control{
		Name: contract.ControlDrain,
		Does: "Move all guests away, and evict those that are not to be moved. The node has to be cordoned, or " +
			"to have the taint " + contract.TaintDrain + "; when it is neither any more, the other guests stay.",
		Check: func(r contract.ControlRequest) error {
			switch {
			case s.Node == nil || s.Node.Gone:
				return errors.New("there is no such node")
			case !s.Node.Unschedulable && !s.Node.Drain:
				return errors.New("the node is neither cordoned nor tainted " + contract.TaintDrain +
					", so guests would start on it again: cordon it first")
			case r.Parallelism < 0 || r.Parallelism > maxParallelism:
				return fmt.Errorf("parallelism: has to be between 0 and %d", maxParallelism)
			case s.Wanted != nil:
				return errors.New("a drain is about to begin")
			case s.Open != nil && s.progress().Scope == contract.ScopeAll && r.Parallelism == s.Open.Parallelism:
				return errors.New("the node is being drained already: " + s.Open.ID)
			}
			return nil
		},
		Apply: func(_ time.Time, r contract.ControlRequest) (string, error) {
			s.Hold = nil
			if s.Open != nil {
				s.Open.Scope, s.Open.Parallelism = contract.ScopeAll, r.Parallelism
				return "The drain " + s.Open.ID + " goes on with all guests.", nil
			}
			s.Wanted = &Drain{Scope: contract.ScopeAll, Parallelism: r.Parallelism}
			s.Wanted.Actor = r.Actor
			if s.Wanted.Why = r.Reason; r.Reason == "" {
				s.Wanted.Why = "of the control " + contract.ControlDrain
			}
			return "The guests leave the node.", nil
		},
	}
}

// maxParallelism bounds how many guests leave at a time.
const maxParallelism = 100

// sound refuses a corrected state that cannot be meant.
func sound(was, now *State) error {
	switch {
	case now.Name != was.Name:
		return errors.New("name: a repair cannot make this the entity of another node")
	case now.Node == nil && was.Node != nil:
		return errors.New("node: what was seen of the Node cannot be forgotten; crdwatch would not tell it again")
	case was.Open != nil:
		return errors.New("a drain is open: cancel it first, or try again when it has ended")
	case now.Open != nil:
		return errors.New("open: a drain cannot be made up; only null is possible")
	case now.Asking:
		return errors.New("asking: a question cannot be made up; only false is possible")
	}
	return nil
}
