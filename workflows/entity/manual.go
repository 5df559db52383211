package entity

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
)

// recordsKept bounds what the history query answers; older operations are in Temporal's own history.
const recordsKept = 20

// refusedFor is how long a control that was refused shows, when nobody sends another one: nobody waits for the answer
// to a signal.
const refusedFor = 15 * time.Minute

// Manual is the part of every entity's state that remembers what people did to it by hand, and what it did lately.
type Manual struct {
	// Hold keeps transitions from being opened. Awaiting is the one that waits for approval, and Approved the approval
	// that was given.
	Hold     *Hold              `json:"hold,omitempty"`
	Approved *Approval          `json:"approved,omitempty"`
	Awaiting contract.Operation `json:"awaiting,omitempty"`

	Refused *Refusal                   `json:"refused,omitempty"`
	Records []contract.OperationRecord `json:"records,omitempty"`
	// Deleter is who asked for the object's deletion, as the API server has said ("": not known), and DeletionAsked
	// when that was heard.
	Deleter       string    `json:"deleter,omitempty"`
	DeletionAsked time.Time `json:"deletionAsked,omitzero"`

	// unmeasured are transitions that have closed since metrics were told last.
	unmeasured []measure
}

// Refusal is a control that came as a signal and was not taken.
type Refusal struct {
	Control string    `json:"control"`
	Actor   string    `json:"actor,omitempty"`
	Why     string    `json:"why"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"`
}

// Record notes an operation. One with the ID of an operation that is open yet replaces it.
func (m *Manual) Record(r contract.OperationRecord) {
	i := slices.IndexFunc(m.Records, func(old contract.OperationRecord) bool {
		return old.Until.IsZero() && old.Operation == r.Operation && old.ID == r.ID
	})
	// The list is copied: what a query was answered must not change under it.
	list := slices.Clone(m.Records)
	if i >= 0 {
		list[i] = r
	} else {
		list = append(list, r)
	}
	m.Records = list[max(0, len(list)-recordsKept):]
}

// Going is the operation without an ID that goes on, or nil.
func (m *Manual) Going() *contract.OperationRecord {
	for i := len(m.Records) - 1; i >= 0; i-- {
		if r := m.Records[i]; r.Until.IsZero() && r.ID == "" {
			return &r
		}
	}
	return nil
}

// Attempts says how many times in a row, with this one, an operation has been tried: since it last went well.
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

// OutcomeDone is the outcome of an operation that went well.
const OutcomeDone = "done"

// Show sets the conditions that show what people did, or have to do.
func (m *Manual) Show(list []contract.Condition, now time.Time) []contract.Condition {
	list = conditions.Show(list, contract.ConditionHeld, m.Hold.condition(), now)
	list = conditions.Show(list, contract.ConditionApprovalRequired, m.approvalCondition(), now)
	return conditions.Show(list, contract.ConditionControlRefused, m.refusedCondition(), now)
}

// refusedCondition is the condition that shows a refused control, or nil.
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
