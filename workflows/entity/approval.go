package entity

import (
	"errors"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Approval lets one transition begin that waits for a person.
type Approval struct {
	Operation contract.Operation `json:"operation"`
	Actor     string             `json:"actor"` // claimed
	At        time.Time          `json:"at"`
	// Generation is that of the object which was approved, and VMI the UID of the instance that may go ("": there was
	// none).
	Generation int64  `json:"generation,omitempty"`
	VMI        string `json:"vmi,omitempty"`
}

// covers says that a is of this operation on the object as it is now, and, where an instance is to go, of that
// instance's end.
func (a *Approval) covers(op contract.Operation, generation int64, vmi string) bool {
	return a != nil && a.Operation == op && a.Generation == generation &&
		(op == contract.OperationStart || a.VMI == vmi)
}

// AwaitApproval notes which transition waits for approval ("": none), so that one can be given, and drops one that was
// given for something else.
func (m *Manual) AwaitApproval(op contract.Operation, generation int64, vmi string) {
	m.Awaiting = op
	if !m.Approved.covers(op, generation, vmi) {
		m.Approved = nil
	}
}

// awaits says that a transition may not begin before somebody approves it.
func (m *Manual) awaits(op contract.Operation) bool {
	return op != contract.OperationNone && m.Awaiting == op && m.Approved == nil
}

// Approve is the control that lets the transition begin which waits for approval. now says which generation of the
// object, and which instance (its UID), are approved.
func Approve(m *Manual, now func() (generation int64, vmi string)) Control {
	return Control{
		Name: contract.ControlApprove, Does: "Let the transition that waits for approval begin.",
		Check: func(r contract.ControlRequest) error {
			switch {
			case m.Awaiting == contract.OperationNone:
				return errors.New("nothing waits for approval")
			case r.Operation != contract.OperationNone && r.Operation != m.Awaiting:
				return fmt.Errorf("operation: %s does not wait for approval; %s does", r.Operation, m.Awaiting)
			}
			return nil
		},
		Apply: func(at time.Time, r contract.ControlRequest) (string, error) {
			m.Approved = &Approval{Operation: m.Awaiting, Actor: r.Actor, At: at}
			m.Approved.Generation, m.Approved.VMI = now()
			return "The " + string(m.Awaiting) + " is approved.", nil
		},
	}
}

// approvalCondition shows that a transition waits for approval; nil: none does.
func (m *Manual) approvalCondition() *contract.Condition {
	if !m.awaits(m.Awaiting) {
		return nil
	}
	return &contract.Condition{
		Type: contract.ConditionApprovalRequired, Status: "True", Reason: "ApprovalRequired",
		Message: fmt.Sprintf("the %s waits for approval; the control %s gives it", m.Awaiting, contract.ControlApprove),
	}
}
