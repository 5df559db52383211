package replicaset

import (
	"errors"
	"reflect"
	"time"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// controls are what a person may ask of a replica set's entity.
func (e *set) controls() []entity.Control {
	s := &e.state
	return []entity.Control{
		{
			Name: contract.ControlHold, Does: "Make and remove no replicas until the set is released. What is open goes on.",
			Check: func(contract.ControlRequest) error { return s.checkHold() },
			Apply: func(now time.Time, r contract.ControlRequest) (string, error) {
				s.Hold = entity.HoldBy(now, r, "")
				return "No transition is opened until the replica set is released.", nil
			},
		},
		{
			Name: contract.ControlRelease, Does: "Go on as the specification says.",
			Check: func(contract.ControlRequest) error {
				if s.Hold == nil {
					return errors.New("the replica set is not held")
				}
				return nil
			},
			Apply: func(time.Time, contract.ControlRequest) (string, error) {
				s.Hold = nil
				return "The replica set goes on as its specification says.", nil
			},
		},
		{
			Name: contract.ControlRetryNow, Does: "Do not wait for the next attempt or for the end of the back-off.",
			Check: func(contract.ControlRequest) error {
				if s.Failure == nil && s.CrashLoopUntil.IsZero() {
					return errors.New("nothing failed: no attempt is being waited for")
				}
				return nil
			},
			Apply: func(now time.Time, _ contract.ControlRequest) (string, error) { return s.retryNow(now), nil },
		},
		{
			Name: contract.ControlCancelTransition, Does: "Cancel the open transition, and hold the set. The replicas that it made stay.",
			Check: func(contract.ControlRequest) error { return s.checkCancel() },
			Apply: func(now time.Time, r contract.ControlRequest) (string, error) {
				t := *s.Open
				t.CancelReason = "cancelled by " + r.Actor + " (claimed)"
				s.Open = &t
				s.Hold = entity.HoldBy(now, r, "its replication was cancelled, ")
				return "The replication is cancelled, and the replica set is held until it is released.", nil
			},
		},
		entity.Repair(e.loop, s, sound),
	}
}

// sound refuses a corrected state that is about something else than the one it corrects.
func sound(was, now *State) error {
	switch {
	case now.Object != was.Object:
		return errors.New("object: a repair cannot make this the entity of another object")
	case now.Set == nil && was.Set != nil:
		return errors.New("set: what was seen of the VirtualMachineInstanceReplicaSet cannot be forgotten; crdwatch would not tell it again")
	case now.Set != nil && now.Set.UID != now.Object.UID:
		return errors.New("set.uid: is not that of the object; a repair cannot make this the entity of another object")
	case now.Next != nil && !reflect.DeepEqual(now.Next, was.Next):
		return errors.New("next: is another object; only null, or what it was, is possible")
	case was.Open != nil:
		return errors.New("a transition is open: cancel it first, or try again when it has ended")
	case now.Open != nil:
		return errors.New("open: a transition cannot be made up; only null is possible")
	}
	return nil
}

func (s *State) deleting() bool { return s.Set.Gone || s.Set.DeletionTimestamp != nil }

func (s *State) checkHold() error {
	switch {
	case s.Set == nil:
		return errors.New("the VirtualMachineInstanceReplicaSet has not been seen yet")
	case s.deleting():
		return errors.New("the VirtualMachineInstanceReplicaSet is being deleted")
	case s.Hold != nil:
		return errors.New("the replica set is held already: " + s.Hold.Message)
	}
	return nil
}

func (s *State) checkCancel() error {
	switch {
	case s.Open == nil:
		return errors.New("no transition is open")
	case s.Open.Cancelled || s.Open.CancelReason != "":
		return errors.New("the transition is cancelled already")
	case s.deleting():
		return errors.New("the VirtualMachineInstanceReplicaSet is being deleted: its transition is cancelled anyway")
	}
	return nil
}

func (s *State) retryNow(now time.Time) string {
	s.Failure = s.Failure.RetryAfter(now)
	s.CrashLoopUntil = time.Time{}
	return "The next attempt is made now."
}

// manualConditions shows what people did.
func (s *State) manualConditions(now time.Time) {
	s.Conditions = conditions.Show(s.Conditions, contract.ConditionHeld, s.Hold.Condition(), now)
	s.Conditions = conditions.Show(s.Conditions, contract.ConditionControlRefused, s.RefusedCondition(), now)
}
