package entity

import (
	"errors"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/contract"
)

// Approval is a person's consent to one transition that waits for it.
type Approval struct {
	Operation contract.Operation `json:"operation"`
	Actor     string             `json:"actor"` // claimed
	At        time.Time          `json:"at"`
	// Generation is the approved object's, and VMI the UID of the instance that may be stopped ("": there was none).
	Generation int64  `json:"generation,omitempty"`
	VMI        string `json:"vmi,omitempty"`
}

// covers reports whether the approval is for this operation on the object as it is now, and, where an instance is to be
// stopped, for that instance.
func (a *Approval) covers(op contract.Operation, generation int64, vmi string) bool {
	return a != nil && a.Operation == op && a.Generation == generation &&
		(op == contract.OperationStart || a.VMI == vmi)
}

// AwaitApproval sets the transition that waits for approval ("": none), and drops an approval that was given for
// another one.
func (m *Manual) AwaitApproval(op contract.Operation, generation int64, vmi string) {
	m.Awaiting = op
	if !m.Approved.covers(op, generation, vmi) {
		m.Approved = nil
	}
}

// needsApproval reports whether a transition must not begin without a person's approval.
func (m *Manual) needsApproval(op contract.Operation) bool {
	return op != contract.OperationNone && m.Awaiting == op && m.Approved == nil
}

// Approve returns the control that lets the waiting transition begin. now returns the object's generation and the
// instance's UID that are approved.
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

// approvalCondition returns the condition of a transition that waits for approval; nil: none does.
func (m *Manual) approvalCondition() *contract.Condition {
	if !m.needsApproval(m.Awaiting) {
		return nil
	}
	return &contract.Condition{
		Type: contract.ConditionApprovalRequired, Status: "True", Reason: "ApprovalRequired",
		Message: fmt.Sprintf("the %s waits for approval; the control %s gives it", m.Awaiting, contract.ControlApprove),
	}
}
