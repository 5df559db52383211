package node

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// controls returns the controls that a person may send to a node's entity.
func (e *instance) controls(l *entity.Loop) []entity.Control {
	s := &e.state
	isBackingOff := func() bool { return s.OpenDrain == nil && s.markedInstances() > 0 && !s.Again.IsZero() }
	endBackOff := func(time.Time) { s.Again = time.Time{} }
	return append(s.holdable().Controls(), s.drainControl(), entity.RetryNow(&s.Failure, isBackingOff, endBackOff),
		entity.Repair(l, s, validate))
}

// holdable has the texts of the controls that hold and release the node's drains.
func (s *State) holdable() entity.Holdable {
	return entity.Holdable{
		Manual: &s.Manual, Name: "node",
		Hold: "No drain begins by itself until the control release.", Held: "No drain begins by itself.",
		Release: "Drains begin again by themselves.", Released: "Drains begin by themselves.",
	}
}

// drainControl returns the control that begins a drain of all guests of a node. It refuses a node that is neither
// cordoned nor tainted: there, evicted guests would start again, and be evicted again.
func (s *State) drainControl() entity.Control {
	return entity.Control{
		Name: contract.ControlDrain,
		Does: "Migrate all guests to other nodes, and evict those whose eviction strategy asks for no migration. The " +
			"node has to be cordoned, or to have the drain taint (" + contract.TaintDrain + ", unless the KubeVirt " +
			"object names another). Once it is neither, the remaining guests stay on the node.",
		Check: func(r contract.ControlRequest) error {
			switch {
			case s.Node == nil || s.Node.Gone:
				return errors.New("there is no such node")
			case !s.Node.Unschedulable && !s.Node.Drain:
				return fmt.Errorf("the node is not cordoned and has no taint %s:NoSchedule, so guests would start on it "+
					"again: cordon it first", cmp.Or(s.Node.DrainTaint, contract.TaintDrain))
			case r.Parallelism < 0 || r.Parallelism > maxParallelism:
				return fmt.Errorf("parallelism: has to be between 0 and %d", maxParallelism)
			case s.Wanted != nil:
				return errors.New("a drain is about to begin")
			case s.OpenDrain != nil && s.progress().Scope == contract.ScopeAll &&
				r.Parallelism == s.OpenDrain.Parallelism:
				return errors.New("the node is being drained already: " + s.OpenDrain.ID)
			}
			return nil
		},
		Apply: func(_ time.Time, r contract.ControlRequest) (string, error) {
			s.Hold = nil
			if s.OpenDrain != nil && !s.isEnding() { // otherwise it ends, and another one begins
				s.OpenDrain.Scope, s.OpenDrain.Parallelism = contract.ScopeAll, r.Parallelism
				return "The drain " + s.OpenDrain.ID + " continues with all guests.", nil
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

// validate refuses a corrected state that is inconsistent.
func validate(was, now *State) error {
	switch {
	case now.Name != was.Name:
		return errors.New("name: a repair cannot make this the entity of another node")
	case now.Node == nil && was.Node != nil:
		return errors.New("node: the observation of the Node cannot be removed; crdwatch would not send it again")
	case was.OpenDrain != nil:
		return errors.New("a drain is open: cancel it first, or try again when it has ended")
	case now.OpenDrain != nil:
		return errors.New("open: a drain cannot be made up; only null is possible")
	case now.Asking:
		return errors.New("asking: a question cannot be made up; only false is possible")
	}
	return nil
}
