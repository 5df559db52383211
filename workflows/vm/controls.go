package vm

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Approval lets one transition begin that the VM's annotation asks approval for.
type Approval struct {
	Operation contract.Operation `json:"operation"`
	Actor     string             `json:"actor"` // claimed
	At        time.Time          `json:"at"`
	// Generation is that of the VM which was approved, and VMI the UID of the instance that may go ("": there was none).
	Generation int64  `json:"generation,omitempty"`
	VMI        string `json:"vmi,omitempty"`
}

// controls are what a person may ask of a VM entity.
func (e *instance) controls() []entity.Control {
	s := &e.state
	return []entity.Control{
		{
			Name: contract.ControlHold, Does: "Open no transition of this VM until it is released. What is open goes on.",
			Check: func(contract.ControlRequest) error { return s.checkHold() },
			Apply: func(now time.Time, r contract.ControlRequest) (string, error) {
				s.Hold = entity.HoldBy(now, r, "")
				return "No transition is opened until the VM is released.", nil
			},
		},
		{
			Name: contract.ControlRelease, Does: "Go on as the run strategy says.",
			Check: func(contract.ControlRequest) error {
				if s.Hold == nil {
					return errors.New("the VM is not held")
				}
				return nil
			},
			Apply: func(time.Time, contract.ControlRequest) (string, error) {
				s.Hold = nil
				return "The VM goes on as its run strategy says.", nil
			},
		},
		{
			Name: contract.ControlRetryNow, Does: "Do not wait for the next attempt or for the end of the back-off.",
			Check: func(contract.ControlRequest) error { return s.checkRetry() },
			Apply: func(now time.Time, _ contract.ControlRequest) (string, error) { return s.retryNow(now), nil },
		},
		{
			Name: contract.ControlCancelTransition, Does: "Cancel the open transition, and hold the VM.",
			Check: func(contract.ControlRequest) error { return s.checkCancel() },
			Apply: func(now time.Time, r contract.ControlRequest) (string, error) {
				s.Open.CancelReason = "cancelled by " + r.Actor + " (claimed)"
				s.Hold = entity.HoldBy(now, r, "its "+string(s.Open.Operation)+" was cancelled, ")
				return "The " + string(s.Open.Operation) + " is cancelled, and the VM is held until it is released.", nil
			},
		},
		{
			Name: contract.ControlApprove, Does: "Let the transition that waits for approval begin.",
			Check: func(r contract.ControlRequest) error { return s.checkApprove(r.Operation) },
			Apply: func(now time.Time, r contract.ControlRequest) (string, error) {
				s.Approved = &Approval{Operation: s.Awaiting, Actor: r.Actor, At: now, Generation: s.VM.Generation, VMI: s.instanceUID()}
				return "The " + string(s.Awaiting) + " is approved.", nil
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
	case now.VM == nil && was.VM != nil:
		return errors.New("vm: what was seen of the VirtualMachine cannot be forgotten; crdwatch would not tell it again")
	case now.VM != nil && now.VM.UID != now.Object.UID:
		return errors.New("vm.uid: is not that of the object; a repair cannot make this the entity of another object")
	case now.VMI != nil && !sameOwner(was, now):
		return errors.New("vmi: belongs to somebody else than before; only null, or the same owner, is possible")
	case now.Next != nil && !reflect.DeepEqual(now.Next, was.Next):
		return errors.New("next: is another object; only null, or what it was, is possible")
	case was.Open != nil:
		return errors.New("a transition is open: cancel it first, or try again when it has ended")
	case now.Open != nil:
		return errors.New("open: a transition cannot be made up; only null is possible")
	}
	return nil
}

// sameOwner says that the corrected state has no instance of another VM, and none that was made up for one.
func sameOwner(was, now *State) bool {
	if was.VMI == nil {
		return now.VMI.OwnerUID == now.Object.UID
	}
	return now.VMI.OwnerUID == was.VMI.OwnerUID
}

func (s *State) checkHold() error {
	switch {
	case s.VM == nil:
		return errors.New("the VirtualMachine has not been seen yet")
	case s.deleting():
		return errors.New("the VirtualMachine is being deleted")
	case s.Hold != nil:
		return errors.New("the VM is held already: " + s.Hold.Message)
	}
	return nil
}

func (s *State) checkRetry() error {
	waits := s.Failure != nil || s.StartFailure != nil && s.StartFailure.RetryAfter != nil
	if !waits {
		return errors.New("nothing failed: no attempt is being waited for")
	}
	return nil
}

func (s *State) checkCancel() error {
	switch {
	case s.Open == nil:
		return errors.New("no transition is open")
	case s.Open.Cancelled || s.Open.CancelReason != "":
		return fmt.Errorf("the %s is cancelled already", s.Open.Operation)
	case s.deleting():
		return errors.New("the VirtualMachine is being deleted: that cannot be cancelled")
	}
	return nil
}

func (s *State) checkApprove(op contract.Operation) error {
	switch {
	case s.Awaiting == contract.OperationNone:
		return errors.New("nothing waits for approval")
	case op != contract.OperationNone && op != s.Awaiting:
		return fmt.Errorf("operation: %s does not wait for approval; %s does", op, s.Awaiting)
	}
	return nil
}

func (s *State) retryNow(now time.Time) string {
	s.Failure = s.Failure.RetryAfter(now)
	if s.StartFailure != nil {
		f := *s.StartFailure
		at := now.Truncate(time.Second)
		f.RetryAfter = &at
		s.StartFailure = &f
	}
	return "The next attempt is made now."
}

// guard keeps a transition that the run strategy asks for from being opened while a person has the say.
func (s *State) guard(d decision, now time.Time) decision {
	switch {
	case s.Hold != nil:
		return s.or(s.decideStatus(now), "a person: the VM is "+s.Hold.Message)
	case s.needsApproval(d.Operation) && !s.approved(d.Operation):
		return s.or(s.decideStatus(now), fmt.Sprintf("a person: the %s needs approval (annotation %s); the control %s gives it", d.Operation, contract.AnnotationApproval, contract.ControlApprove))
	default:
		return d
	}
}

// needsApproval: taking away an instance that has ended needs none, for nobody loses anything by it.
func (s *State) needsApproval(op contract.Operation) bool {
	listed := func(o contract.Operation) bool { return slices.Contains(s.VM.NeedsApproval, string(o)) }
	switch op {
	case contract.OperationStart:
		return listed(contract.OperationStart)
	case contract.OperationStop:
		return listed(contract.OperationStop) && s.situation() == runstrategy.Alive
	case contract.OperationRestart:
		return listed(contract.OperationStart) || listed(contract.OperationStop)
	default:
		return false
	}
}

// approved says that somebody has approved of this operation on the VM as it is now, and, where an instance is to go, of that instance's end.
func (s *State) approved(op contract.Operation) bool {
	a := s.Approved
	return a != nil && a.Operation == op && a.Generation == s.VM.Generation && (op == contract.OperationStart || a.VMI == s.instanceUID())
}

// instanceUID is the UID of the instance, "" while there is none.
func (s *State) instanceUID() string {
	if s.situation() == runstrategy.Absent {
		return ""
	}
	return s.VMI.UID
}

// await notes which transition waits for approval, so that one can be given.
func (s *State) await() {
	s.Awaiting = contract.OperationNone
	if s.VM == nil || s.deleting() || s.Open != nil || s.Hold != nil || len(s.VM.NeedsApproval) == 0 {
		s.Approved = nil
		return
	}
	want, _ := s.desired()
	if s.needsApproval(want.Operation) {
		s.Awaiting = want.Operation
	}
	if !s.approved(s.Awaiting) {
		s.Approved = nil // given for what is no longer desired, or for another instance
	}
}

// manualConditions shows what people did, or have to do.
func (s *State) manualConditions(now time.Time) {
	var awaiting *contract.Condition
	if s.Awaiting != contract.OperationNone && s.Approved == nil {
		awaiting = &contract.Condition{
			Type: contract.ConditionApprovalRequired, Status: "True", Reason: "ApprovalRequired",
			Message: fmt.Sprintf("the %s waits for approval; the control %s gives it", s.Awaiting, contract.ControlApprove),
		}
	}
	s.Conditions = conditions.Show(s.Conditions, contract.ConditionHeld, s.Hold.Condition(), now)
	s.Conditions = conditions.Show(s.Conditions, contract.ConditionApprovalRequired, awaiting, now)
	s.Conditions = conditions.Show(s.Conditions, contract.ConditionControlRefused, s.RefusedCondition(), now)
}
