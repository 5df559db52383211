package entity

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
)

// recordsKept bounds what the history query answers; older operations are in Temporal's own history.
const recordsKept = 20

// refusedFor is how long a refused control is shown, unless another one is sent: the sender of a signal gets no answer.
const refusedFor = 15 * time.Minute

// Manual is the part of every entity's state that has people's controls, and the records of recent operations.
type Manual struct {
	// Hold keeps transitions from being opened. Awaiting is the operation that waits for approval, and Approved the
	// approval that was given.
	Hold     *Hold              `json:"hold,omitempty"`
	Approved *Approval          `json:"approved,omitempty"`
	Awaiting contract.Operation `json:"awaiting,omitempty"`

	Refused *Refusal                   `json:"refused,omitempty"`
	Records []contract.OperationRecord `json:"records,omitempty"`
	// Deleter is the user who asked for the object's deletion at DeletionAsked, as the API server reported ("": not
	// known).
	Deleter       string    `json:"deleter,omitempty"`
	DeletionAsked time.Time `json:"deletionAsked,omitzero"`

	// unmeasured are transitions that have closed and are not in the metrics yet.
	unmeasured []measure
}

// Refusal is a control that came as a signal and was refused.
type Refusal struct {
	Control string    `json:"control"`
	Actor   string    `json:"actor,omitempty"`
	Why     string    `json:"why"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"`
}

// Record adds an operation's record, or replaces the open record with its ID.
func (m *Manual) Record(r contract.OperationRecord) {
	i := slices.IndexFunc(m.Records, func(old contract.OperationRecord) bool {
		return old.Until.IsZero() && old.Operation == r.Operation && old.ID == r.ID
	})
	// The list is copied: a query's answer must not change under it.
	list := slices.Clone(m.Records)
	if i >= 0 {
		list[i] = r
	} else {
		list = append(list, r)
	}
	m.Records = list[max(0, len(list)-recordsKept):]
}

// OpenRecord returns the open operation without an ID, or nil.
func (m *Manual) OpenRecord() *contract.OperationRecord {
	for i := len(m.Records) - 1; i >= 0; i-- {
		if r := m.Records[i]; r.Until.IsZero() && r.ID == "" {
			return &r
		}
	}
	return nil
}

// Attempts returns how many times in a row, with this one, an operation was tried since its last success.
func (m *Manual) Attempts(op contract.Operation) int {
	n := 1
	for i := len(m.Records) - 1; i >= 0; i-- {
		r := m.Records[i]
		switch {
		case r.Operation != op:
			continue
		case r.Until.IsZero():
			continue
		case r.Outcome == OutcomeDone:
			return n
		}
		n++
	}
	return n
}

// OutcomeDone is the outcome of an operation that succeeded.
const OutcomeDone = "done"

// SetConditions sets the conditions that show people's controls, and those that are awaited.
func (m *Manual) SetConditions(list []contract.Condition, now time.Time) []contract.Condition {
	list = conditions.Show(list, contract.ConditionHeld, m.Hold.condition(), now)
	list = conditions.Show(list, contract.ConditionApprovalRequired, m.approvalCondition(), now)
	return conditions.Show(list, contract.ConditionControlRefused, m.refusedCondition(), now)
}

// refusedCondition returns the condition of a refused control, or nil.
func (m *Manual) refusedCondition() *contract.Condition {
	if m.Refused == nil {
		return nil
	}
	at := m.Refused.At.Truncate(time.Second)
	return &contract.Condition{
		Type: contract.ConditionControlRefused, Status: "True", Reason: "ControlRefused", LastTransitionTime: &at,
		Message: m.Refused.Control + " was refused: " + m.Refused.Why,
	}
}
