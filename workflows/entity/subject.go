package entity

import (
	"errors"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/waits"
)

// Subject is an entity with transitions, with the texts that a person reads.
type Subject struct {
	Manual *Manual
	// Kind is its object's, Name what people call it ("VM"), and Follows the part of the object that it follows ("run
	// strategy").
	Kind, Name, Follows string
	// Seen is set once the object was observed, and Deleting while it is being deleted.
	Seen, Deleting func() bool
	// Open is the open transition; nil: there is none.
	Open func() *Transition
}

// Controls returns the controls hold, release and cancel-transition.
func (s Subject) Controls() []Control {
	m := s.Manual
	return append(Holdable{
		Manual: m, Name: s.Name, Check: s.checkHold,
		Hold:     "Open no transition of this " + s.Name + " until it is released. An open one continues.",
		Held:     "No transition is opened until the " + s.Name + " is released.",
		Release:  "Follow the " + s.Follows + " again.",
		Released: fmt.Sprintf("The %s follows its %s again.", s.Name, s.Follows),
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
		return fmt.Errorf("the %s is being deleted: that cannot be cancelled", s.Kind)
	}
	return nil
}

// Guard keeps a desired transition from being opened while an operator hold or a missing approval prevents it. status
// writes the status meanwhile, where that is due.
func (s Subject) Guard(d Decision, status func() Decision) Decision {
	switch m := s.Manual; {
	case m.Hold != nil:
		return status().Or(waits.For(waits.Release, s.Name, m.Hold.Message))
	case m.needsApproval(d.Operation):
		return status().Or(waits.For(waits.Approval, d.Operation, contract.AnnotationApproval, contract.ControlApprove))
	default:
		return d
	}
}

// noun returns an operation as a noun.
func noun(op contract.Operation) string {
	if op == contract.OperationReplicate {
		return "replication"
	}
	return string(op)
}

// RetryNow returns the control that ends the wait after a failure, and also a back-off if there is one: isBackingOff
// reports it and endBackOff ends it. Both are nil if there is none.
func RetryNow(failure **Failure, isBackingOff func() bool, endBackOff func(now time.Time)) Control {
	does := "Do not wait for the next attempt."
	if isBackingOff != nil {
		does = "Do not wait for the next attempt or for the end of the back-off."
	}
	return Control{
		Name: contract.ControlRetryNow, Does: does,
		Check: func(contract.ControlRequest) error {
			if *failure == nil && (isBackingOff == nil || !isBackingOff()) {
				return errors.New("nothing failed: no attempt is being waited for")
			}
			return nil
		},
		Apply: func(now time.Time, _ contract.ControlRequest) (string, error) {
			*failure = (*failure).RetryAfter(now)
			if endBackOff != nil {
				endBackOff(now)
			}
			return "The next attempt is made now.", nil
		},
	}
}
