package migration

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// adopt begins with an incarnation. What its status says already is believed, so that history lost is not time lost.
func (s *State) adopt(o contract.MigrationObservation) {
	if s.Target.Pod != nil && s.Target.Pod.Migration != o.UID {
		s.Target = End{} // of an earlier incarnation
	}
	s.Object.UID = o.UID
	s.VMIM = &o
	s.VMI = contract.Object{Namespace: s.Object.Namespace, Name: o.VMIName}
	if s.Phase = Phase(o.Phase); !slices.Contains(Phases(), s.Phase) {
		s.Phase = PhaseUnset
	}
	s.PhaseTimes, s.Conditions = o.PhaseTimes, o.Conditions
	if s.Hold == nil {
		s.Hold = entity.HoldShown(shown(o.Conditions, contract.ConditionHeld))
	}
	s.Over = o.Closed()
	// One that says nothing yet has nothing: where that is not so, its instance, or a pod, says it. Nobody asks those
	// about one that is to go, whose status may be older than what was begun.
	s.Stale = s.Stale || !s.Over && (s.Phase != PhaseUnset || o.DeletionTimestamp != nil || s.Target.Pod != nil ||
		s.backsOff())
}

// backsOff says that what became of others before it matters.
func (s *State) backsOff() bool { return s.VMIM.Evacuates != "" || s.VMIM.WorkloadUpdate }

// read takes in what is true now, whatever was remembered. What is under way on a node says itself how it ended.
func (s *State) read(r contract.ReadMigrationResult) {
	// Also where its status tells of more than this run knows, as one that a late observation has begun after the end.
	again := s.Stale || s.VMIM == nil || r.Migration != nil && s.behind(r.Migration)
	s.Claim.Missing = false
	switch {
	case r.Migration == nil && s.VMIM == nil:
		s.Missed, s.Target = true, End{}
		return
	case s.VMIM == nil:
		s.adopt(*r.Migration)
	case r.Migration == nil:
		s.VMIM = entity.Gone(s.VMIM)
	default:
		s.VMIM = r.Migration
	}
	s.Stale = false
	s.Next = entity.StillNext(s.Next, r.Migration)
	ended := r.Migration != nil && r.Migration.Final() && !s.Begun && s.Proof == nil // whatever a node still does
	if again = again && (ended || len(s.Open) == 0); again {
		s.forget(r.Migration)
	}
	if s.Over {
		return
	}
	s.OutcomeUnknown = s.Phase != PhaseUnset && !s.Phase.Final()
	s.VMIGone = r.VMI == nil || s.VMI.UID != "" && s.VMI.UID != r.VMI.UID
	if !s.VMIGone {
		s.VMI.UID = r.VMI.UID
		s.Claim.Phase, s.Claim.Deleting = r.VMI.Phase, r.VMI.DeletionTimestamp != nil
	}
	s.NotBefore = entity.BackOffEnd(r.Failures, r.LastFailure)
	state := r.State
	if state != nil && state.MigrationUID != s.Object.UID {
		state = nil
	}
	s.findPods(r, state)
	if s.Claim.Stage == "" && !s.VMIGone { // an earlier run may have told the instance, which waits for its end then
		s.Claim.Stage = contract.StageClaim
	}
	if again {
		s.recall(state)
	}
}

// countRead notes a read.
func (s *State) countRead(now time.Time) {
	if now.Sub(s.ReadAt) > 2*pauseLongest {
		s.Reads = 0
	}
	s.Reads, s.ReadAt = s.Reads+1, now
}

// forget drops what was remembered, but for what people did, and for what was claimed and asked for: it may be old.
func (s *State) forget(now *contract.MigrationObservation) {
	n := State{
		Object: s.Object, VMIM: s.VMIM, Next: s.Next, Manual: s.Manual, Memory: s.Memory, Prefer: s.Prefer,
		Cancelled: s.Cancelled, Announced: s.Announced, Claim: Claim{Stage: s.Claim.Stage}, Failure: s.Failure,
		StatusWrites: entity.StatusWrites[contract.MigrationStatus]{Conflicts: s.Conflicts},
		Deleted:      s.Deleted, VMI: s.VMI, Reads: s.Reads, ReadAt: s.ReadAt,
		Admission: Admission{At: s.Admission.At, Asked: s.Admission.Asked, Returns: s.Admission.Returns},
		Quota:     s.Quota, QuotaCount: s.QuotaCount, QuotaUntil: s.QuotaUntil,
		Phase: s.Phase, PhaseTimes: s.PhaseTimes, Conditions: s.Conditions,
	}
	if now != nil {
		n.adopt(*now)
		n.VMI.UID, n.Stale = s.VMI.UID, false
	}
	*s = n
}

// findPods takes in the instance's pods: its migration's own, and that which the guest is to leave.
func (s *State) findPods(r contract.ReadMigrationResult, state *contract.MigrationState) {
	pods := r.Pods()
	for _, end := range []*End{&s.Source, &s.Target} {
		if end.Pod != nil && !slices.ContainsFunc(pods, func(o contract.PodObservation) bool {
			return o.UID == end.Pod.UID
		}) {
			end.Pod = entity.Gone(end.Pod)
		}
	}
	for _, o := range pods {
		switch {
		case s.Source.Pod != nil && s.Source.Pod.UID == o.UID:
			s.Source.Pod = &o
		case s.Target.Pod != nil && s.Target.Pod.UID == o.UID:
			s.Target.Pod = &o
		case o.Migration == s.Object.UID && !s.Target.held():
			s.Target = End{Pod: &o, NodeState: s.nodeOf(o.UID)}
		case s.Source.Pod != nil || o.Migration == s.Object.UID:
		case state != nil && state.SourcePod == o.Name,
			state == nil && !s.Phase.Final() && r.VMI != nil && r.VMI.NodeName != "" && o.NodeName == r.VMI.NodeName:
			s.Source = End{Pod: &o, Node: o.NodeName}
		}
	}
	if s.Source.Pod == nil && state != nil && state.SourcePod != "" {
		s.Source = End{Node: state.SourceNode, Pod: &contract.PodObservation{Name: state.SourcePod, Gone: true}}
	}
}

// recall takes in what the instance's status says of this migration (nil: nothing), and what its pods do.
func (s *State) recall(state *contract.MigrationState) {
	if state != nil {
		s.Claim.Seen = contract.StageHandOff
		if !state.Start.IsZero() {
			s.Claim.Seen = contract.StageCopying
		}
		if state.Completed {
			s.Claim.Seen = contract.StageStayed
		}
		s.HandOffAt, s.Start, s.End = state.Start, state.Start, state.End
		if s.HandOffAt.IsZero() {
			s.HandOffAt = s.phaseTime(PhaseScheduled)
		}
		if s.HandOffAt.IsZero() {
			s.HandOffAt = s.VMIM.CreatedAt
		}
		s.Settings = &contract.ConfigureMigrationResult{Policy: state.PolicyName}
		if state.Configuration != nil {
			s.Settings.Configuration = *state.Configuration
		}
	}
	switch {
	case s.Phase == PhaseSucceeded, state != nil && state.Completed && !state.Failed:
		s.Result = ResultMoved
	case s.Phase == PhaseFailed, state != nil && state.Failed:
		s.Result, s.Reason = ResultStayed, wordFailed
		if state != nil && state.FailureReason != "" {
			s.Reason = state.FailureReason
		}
	case s.Target.Pod != nil && (s.Target.Pod.ComputeRunning || s.Target.ended()), state != nil && s.Target.Pod == nil:
		s.MoveUnknown = "nothing is remembered of it"
	}
	if s.Target.Pod != nil {
		s.Admission.Admitted, s.PrepareSent = true, true
	}
	if s.Phase != PhaseUnset && s.Claim.Stage == "" {
		s.Claim.Stage = contract.StageClaim // it may have been
	}
}
