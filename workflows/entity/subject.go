package entity

import (
	"errors"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Subject is an entity with transitions, as a person is spoken to about it.
type Subject struct {
	Manual *Manual
	// Kind is that of its object, Name what people call it ("VM"), and Follows what of it says what is to be done ("run
	// strategy").
	Kind, Name, Follows string
	// Seen says that the object has been seen, and Deleting that it is being deleted.
	Seen, Deleting func() bool
	// Open is the open transition; nil: there is none.
	Open func() *Transition
}

// Controls are hold, release and cancel-transition.
func (s Subject) Controls() []Control {
	m := s.Manual
	return append(Holdable{
		Manual: m, Name: s.Name, Check: s.checkHold,
		Hold:     "Open no transition of this " + s.Name + " until it is released. What is open goes on.",
		Held:     "No transition is opened until the " + s.Name + " is released.",
		Release:  "Go on as the " + s.Follows + " says.",
		Released: fmt.Sprintf("The %s goes on as its %s says.", s.Name, s.Follows),
	}.Controls(),
		Control{
			Name: contract.ControlCancelTransition, Does: "Cancel the open transition, and hold the " + s.Name + ".",
			Check: func(contract.ControlRequest) error { return s.checkCancel() },
			Apply: func(now time.Time, r contract.ControlRequest) (string, error) {
				open := s.Open()
				open.CancelReason = "cancelled by " + r.Actor + " (claimed)"
				m.Hold = holdBy(now, r, "its "+noun(open.Operation)+" was cancelled, ")
				return fmt.Sprintf("The %s is cancelled, and the %s is held until it is released.",
					noun(open.Operation), s.Name), nil
			},
		})
}

func (s Subject) checkHold() error {
	switch {
	case !s.Seen():
		return fmt.Errorf("the %s has not been seen yet", s.Kind)
	case s.Deleting():
		return fmt.Errorf("the %s is being deleted", s.Kind)
	}
	return nil
}

func (s Subject) checkCancel() error {
	switch open := s.Open(); {
	case open == nil:
		return errors.New("no transition is open")
	case open.Cancelled || open.CancelReason != "":
		return fmt.Errorf("the %s is cancelled already", noun(open.Operation))
	case s.Deleting():
		return fmt.Errorf("the %s is being deleted: what that takes goes on", s.Kind)
	}
	return nil
}

// Guard keeps a transition that is desired from being opened while a person has the say. status writes the status
// meanwhile, where it is to be written.
func (s Subject) Guard(d Decision, status func() Decision) Decision {
	switch m := s.Manual; {
	case m.Hold != nil:
		return status().Or("a person: the " + s.Name + " is " + m.Hold.Message)
	case m.awaits(d.Operation):
		return status().Or(fmt.Sprintf("a person: the %s needs approval (annotation %s); the control %s gives it",
			d.Operation, contract.AnnotationApproval, contract.ControlApprove))
	default:
		return d
	}
}

// noun is an operation as something that goes on.
func noun(op contract.Operation) string {
	if op == contract.OperationReplicate {
		return "replication"
	}
	return string(op)
}

// RetryNow is the control that ends the wait for another attempt: that of the failure, and besides it a back-off (nil:
// there is none) that waits says lasts, and end ends.
func RetryNow(failure **Failure, waits func() bool, end func(now time.Time)) Control {
	does := "Do not wait for the next attempt."
	if waits != nil {
		does = "Do not wait for the next attempt or for the end of the back-off."
	}
	return Control{
		Name: contract.ControlRetryNow, Does: does,
		Check: func(contract.ControlRequest) error {
			if *failure == nil && (waits == nil || !waits()) {
				return errors.New("nothing failed: no attempt is being waited for")
			}
			return nil
		},
		Apply: func(now time.Time, _ contract.ControlRequest) (string, error) {
			*failure = (*failure).RetryAfter(now)
			if end != nil {
				end(now)
			}
			return "The next attempt is made now.", nil
		},
	}
}
