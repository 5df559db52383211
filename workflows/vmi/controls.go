package vmi

import (
	"errors"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// controls are what a person may ask of a VMI entity.
func (e *instance) controls() []entity.Control {
	s := &e.state
	return []entity.Control{
		entity.RetryNow(&s.Failure, nil, nil),
		{
			Name:  contract.ControlFenceConfirmed,
			Does:  "Take a person's word that the node is off: the instance fails, and may be started elsewhere.",
			Check: func(contract.ControlRequest) error { _, err := s.fenceable(); return err },
			Apply: s.confirmFence,
		},
		entity.Repair(e.loop, s, sound),
	}
}

// sound refuses a corrected state that is about something else than the one it corrects.
func sound(was, now *State) error {
	switch {
	case !entity.Same(was.Fenced, now.Fenced):
		return errors.New("fenced: that a node is off is what the control fence-confirmed says")
	case now.PodForceDeleted && !was.PodForceDeleted, !now.ForceDeletedAt.Equal(was.ForceDeletedAt):
		return errors.New("podForceDeleted: a deletion cannot be made up; only false is possible")
	case len(now.Others) > 0 && !entity.Same(was.Others, now.Others):
		return errors.New("others: they can only be forgotten; what there is of them is found when the instance goes")
	case now.Migration != nil && !entity.Same(was.Migration, now.Migration):
		return errors.New("claim: a migration cannot be made up, nor changed; null forgets it")
	case now.Starting:
		return errors.New("starting: an attempt cannot be made up; only false is possible")
	}
	if err := entity.SameObject(was.identity(), now.identity()); err != nil {
		return err
	}
	return soundPod(was, now)
}

// soundPod lets the pod be forgotten, so that it is looked for, but not be made another one, nor be said to exist no
// more while it may run.
func soundPod(was, now *State) error {
	p, q := was.Pod, now.Pod
	switch {
	case q == nil && p != nil && now.VMI == nil:
		return errors.New("pod: nobody would look for it without its VirtualMachineInstance")
	case q == nil:
		return nil
	case p == nil || p.UID != q.UID || p.Name != q.Name || p.VMIUID != q.VMIUID || p.NodeName != q.NodeName:
		return errors.New("pod: a repair cannot make it another pod, or put it elsewhere; null has it looked for")
	case p.Gone != q.Gone:
		return errors.New("pod: whether it is gone is for the API server to say; null has it looked for")
	}
	return nil
}

func (s *State) identity() entity.Identity[contract.VMIObservation] {
	return entity.Identity[contract.VMIObservation]{Field: "vmi", Kind: "VirtualMachineInstance", Object: s.Object,
		Seen: s.VMI, Next: s.Next}
}

// track notes what the entity is about: the boot of its instance, then its end.
func (s *State) track(now time.Time) {
	op := s.operation()
	going := s.Going()
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
