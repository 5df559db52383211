package vmi

import (
	"errors"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// controls returns the controls of a VMI entity.
func (e *instance) controls() []entity.Control {
	s := &e.state
	return []entity.Control{
		entity.RetryNow(&s.Failure, nil, nil),
		{
			Name:  contract.ControlFenceConfirmed,
			Does:  "Confirm that the node is off: the instance fails, and may be started elsewhere.",
			Check: func(contract.ControlRequest) error { _, err := s.findFenceable(); return err },
			Apply: s.confirmFence,
		},
		entity.Repair(e.loop, s, checkRepair),
	}
}

// checkRepair refuses a corrected state that is not about the same object, or that claims what only an observation can
// show.
func checkRepair(was, now *State) error {
	switch {
	case !entity.Same(was.Fenced, now.Fenced):
		return errors.New("fenced: use the control fence-confirmed to confirm that a node is off")
	case now.PodForceDeleted && !was.PodForceDeleted, !now.ForceDeletedAt.Equal(was.ForceDeletedAt):
		return errors.New("podForceDeleted: must be false or unchanged, and forceDeletedAt unchanged: a repair " +
			"cannot add a deletion")
	case len(now.Others) > 0 && !entity.Same(was.Others, now.Others):
		return errors.New("others: must be empty or unchanged: a deletion of the instance finds existing pods again")
	case now.Migration != nil && !entity.Same(was.Migration, now.Migration):
		return errors.New("claim: must be null or unchanged: a repair cannot add or change a migration")
	case now.Starting:
		return errors.New("starting: must be false: a repair cannot add an attempt")
	}
	if err := entity.SameObject(was.identity(), now.identity()); err != nil {
		return err
	}
	return checkRepairedPod(was, now)
}

// checkRepairedPod permits a repair to forget the pod, so that it is read again. It refuses to replace the pod, and to
// mark a pod as gone that may still run.
func checkRepairedPod(was, now *State) error {
	p, q := was.Pod, now.Pod
	switch {
	case q == nil && p != nil && now.VMI == nil:
		return errors.New("pod: must not be null without a VirtualMachineInstance: the entity would not search for it")
	case q == nil:
		return nil
	case p == nil || p.UID != q.UID || p.Name != q.Name || p.VMIUID != q.VMIUID || p.NodeName != q.NodeName:
		return errors.New("pod: must be null or the same pod on the same node; null makes the entity search for it")
	case p.Gone != q.Gone:
		return errors.New("pod: gone must be unchanged; null makes the entity search for the pod")
	}
	return nil
}

func (s *State) identity() entity.Identity[contract.VMIObservation] {
	return entity.Identity[contract.VMIObservation]{Field: "vmi", Kind: "VirtualMachineInstance", Object: s.Object,
		Seen: s.VMI, Next: s.Next}
}

// recordOperation records the current operation: the boot of the instance, then its end.
func (s *State) recordOperation(now time.Time) {
	op := s.operation()
	going := s.OpenRecord()
	if going != nil && going.Operation != op {
		r := *going
		r.Until, r.Outcome = now, entity.OutcomeDone
		if r.Operation == contract.OperationCreate && s.Phase != PhaseRunning {
			r.Outcome = "cancelled: the instance is being deleted"
			if s.Phase.Final() && s.Explanation != "" {
				r.Outcome = s.Explanation
			}
		}
		s.Record(r)
		going = nil
	}
	if going == nil && op != contract.OperationNone {
		s.Record(contract.OperationRecord{Operation: op, Actor: s.VMI.Actor, Since: now, Attempts: 1})
	}
}
