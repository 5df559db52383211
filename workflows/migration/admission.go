package migration

import (
	"time"

	"github.com/virtflow/virtflow/contract"
)

// Admission has what was requested from the migration queue, and its answer.
type Admission struct {
	// Asked is set once it was requested, Tries is how often, AskAt when next, and Done is set once it was returned.
	Asked bool      `json:"asked,omitempty"`
	Tries int       `json:"tries,omitempty"`
	AskAt time.Time `json:"askAt,omitzero"`
	Done  bool      `json:"done,omitempty"`
	// Returns is set when the admission is to be returned and requested again.
	Returns bool `json:"returns,omitempty"`
	// Unscheduled reports whether it was returned because the target's pod did not run, and still does not.
	Unscheduled bool `json:"unscheduled,omitempty"`

	Sequence int64  `json:"sequence,omitempty"`
	Admitted bool   `json:"admitted,omitempty"`
	Position int    `json:"position,omitempty"`
	Waiting  int    `json:"waiting,omitempty"`
	Why      string `json:"why,omitempty"`
	// At is the time of the admission.
	At time.Time `json:"at,omitzero"`
}

// placePause is after how long the migration queue, once it has answered, gets the request again.
const placePause = 5 * time.Minute

// observeAdmission folds in the migration queue's answer. An admission is never revoked. One that comes although none
// is requested now is of a queue in v0.1.0, which knows no Unscheduled: it is ignored.
func (s *State) observeAdmission(o contract.AdmissionObservation) {
	p := &s.Admission
	if o.Migration == "" || o.Migration != s.Object.UID || o.Sequence <= p.Sequence || p.Admitted && !o.Admitted ||
		p.Unscheduled && o.Admitted {
		return
	}
	if !o.Admitted {
		p.At = time.Time{}
	}
	p.Sequence = o.Sequence
	p.Admitted, p.Position, p.Waiting, p.Why = o.Admitted, o.Position, o.Waiting, o.Why
}

// refreshAdmission returns the admission where the target's pod does not run for long, as nothing is moved meanwhile,
// and requests it again when the pod runs.
func (s *State) refreshAdmission(now time.Time) {
	p := &s.Admission
	switch at := s.returnsAt(); {
	case p.Unscheduled && !s.waitsForPod():
		p.Unscheduled, p.AskAt = false, time.Time{}
	case !at.IsZero() && !now.Before(at):
		*p = Admission{Sequence: p.Sequence, Returns: true, Unscheduled: true}
	}
}

// returnsAt returns when the admission is to be returned (zero: it is not).
func (s *State) returnsAt() time.Time {
	if !s.HasChange(contract.ChangeAfterFirst) || !s.Admission.Admitted || !s.waitsForPod() {
		return time.Time{}
	}
	wait := startTime
	if s.isUnscheduled() {
		wait = returnTime
	}
	return waitEnd(s.phaseTime(PhaseScheduling), nil, wait, wait)
}

// waitsForPod reports whether the target's pod exists and does not run yet.
func (s *State) waitsForPod() bool {
	return s.Target.hasPod() && !s.Target.Pod.ComputeRunning && !s.Begun
}

// isUnscheduled reports whether no node has room for the target's pod.
func (s *State) isUnscheduled() bool {
	p := s.Target.Pod
	return s.Target.hasPod() && p.Unschedulable != nil && p.NodeName == "" && !s.Begun
}

// admissionRequest returns the request for the migration queue.
func (s *State) admissionRequest() contract.AdmissionRequest {
	r := contract.AdmissionRequest{
		Migration: s.Object, Done: s.Over || s.Result != ResultNone, VMIUID: s.VMI.UID, Node: s.Source.nodeName(),
		Priority: s.VMIM.Priority, Since: s.VMIM.CreatedAt, NotBefore: s.NotBefore, Begun: s.Admission.Admitted,
		Returned: s.Admission.Returns, Unscheduled: s.Admission.Unscheduled,
	}
	if r.NotBefore.Before(s.QuotaUntil) {
		r.NotBefore = s.QuotaUntil
	}
	return r
}
