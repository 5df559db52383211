package vmi

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// controls are what a person may ask of a VMI entity.
func (e *instance) controls() []entity.Control {
	s := &e.state
	return []entity.Control{
		{
			Name: contract.ControlRetryNow, Does: "Do not wait for the next attempt.",
			Check: func(contract.ControlRequest) error {
				if s.Failure == nil {
					return errors.New("nothing failed: no attempt is being waited for")
				}
				return nil
			},
			Apply: func(now time.Time, _ contract.ControlRequest) (string, error) {
				s.Failure = s.Failure.RetryAfter(now)
				return "The next attempt is made now.", nil
			},
		},
		{
			Name: contract.ControlFenceConfirmed, Does: "Take a person's word that the node is off: the instance fails, and may be started elsewhere.",
			Check: func(contract.ControlRequest) error { return s.fenceable() },
			Apply: s.confirmFence,
		},
		entity.Repair(e.loop, s, sound),
	}
}

// sound refuses a corrected state that is about something else than the one it corrects.
func sound(was, now *State) error {
	switch {
	case now.Object != was.Object:
		return errors.New("object: a repair cannot make this the entity of another object")
	case now.VMI == nil && was.VMI != nil:
		return errors.New("vmi: what was seen of the VirtualMachineInstance cannot be forgotten; crdwatch would not tell it again")
	case now.VMI != nil && now.VMI.UID != now.Object.UID:
		return errors.New("vmi: a repair cannot put another VirtualMachineInstance in its place")
	case now.Next != nil && !same(was.Next, now.Next):
		return errors.New("next: can only be forgotten (null), not made up")
	case !same(was.Fenced, now.Fenced):
		return errors.New("fenced: that a node is off is what the control fence-confirmed says")
	case now.PodForceDeleted && !was.PodForceDeleted:
		return errors.New("podForceDeleted: a deletion cannot be made up; only false is possible")
	case now.Starting:
		return errors.New("starting: an attempt cannot be made up; only false is possible")
	}
	return soundPod(was, now)
}

// soundPod lets the pod be forgotten, so that it is looked for, but not be made another one, nor be said to exist no more while it may run.
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

// same says that two values are written the same.
func same(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
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
