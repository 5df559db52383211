package migration

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// adopt begins with an incarnation of the object. It believes what the status has, so that a lost history costs no
// time.
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
		s.Hold = entity.HoldShown(shownCondition(o.Conditions, contract.ConditionHeld))
	}
	s.Over = o.Closed()
	// An object without a status has nothing yet: where that is wrong, its instance or a pod shows it. They are not
	// read for an object that is being deleted, so its status, which may be old, has to be checked here.
	s.ReadAgainIf(!s.Over && (s.Phase != PhaseUnset || o.DeletionTimestamp != nil || s.Target.Pod != nil ||
		s.hasBackOff()))
}

// hasBackOff reports whether the outcomes of earlier migrations delay this one.
func (s *State) hasBackOff() bool { return s.VMIM.Evacuates != "" || s.VMIM.WorkloadUpdate }

// foldRead replaces what was remembered by what was read. Steps that are open on a node report their own end.
func (s *State) foldRead(r contract.ReadMigrationResult) {
	// Also where the status has more than this run knows: a late observation has started it after the end.
	again := s.Stale || s.VMIM == nil || r.Migration != nil && s.isBehind(r.Migration)
	s.Claim.Missing = false
	switch {
	case r.Migration == nil && s.VMIM == nil:
		s.Missed, s.Target = true, End{}
		return
	case s.VMIM == nil:
		s.adopt(*r.Migration)
	case r.Migration == nil:
		s.VMIM = entity.AsGone(s.VMIM)
	default:
		s.VMIM = r.Migration
	}
	s.NoteRead()
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
	// An earlier run may have reserved the instance, which waits for the end then.
	if s.Claim.Stage == "" && !s.VMIGone {
		s.Claim.Stage = contract.StageClaim
	}
	if again {
		s.adoptVMIStatus(state, r.Network)
	}
}

// countRead counts a read, and begins again when the last one was long ago.
func (s *State) countRead(now time.Time) {
	if now.Sub(s.ReadAt) > 2*pauseLongest {
		s.Reads = 0
	}
	s.Reads, s.ReadAt = s.Reads+1, now
}

// forget drops what was remembered, which may be old, but for people's controls and for what was reserved and
// requested.
func (s *State) forget(now *contract.MigrationObservation) {
	n := State{
		Logic: s.Logic, Memory: s.Memory, Manual: s.Manual,
		Object: s.Object, VMIM: s.VMIM, Next: s.Next, Prefer: s.Prefer,
		Cancelled: s.Cancelled, Announced: s.Announced, Claim: Claim{Stage: s.Claim.Stage}, Failure: s.Failure,
		StatusWrites: entity.StatusWrites[contract.MigrationStatus]{Conflicts: s.Conflicts},
		Deleted:      s.Deleted, VMI: s.VMI, Reads: s.Reads, ReadAt: s.ReadAt,
		Admission: Admission{At: s.Admission.At, Asked: s.Admission.Asked, Returns: s.Admission.Returns,
			Unscheduled: s.Admission.Unscheduled},
		Quota: s.Quota, QuotaCount: s.QuotaCount, QuotaUntil: s.QuotaUntil,
		Phase: s.Phase, PhaseTimes: s.PhaseTimes, Conditions: s.Conditions,
	}
	if now != nil {
		n.adopt(*now)
		n.VMI.UID = s.VMI.UID
		n.NoteRead()
	}
	*s = n
}

// findPods takes over the instance's pods: the target's, made for this migration, and the source's.
func (s *State) findPods(r contract.ReadMigrationResult, state *contract.MigrationState) {
	pods := r.Pods()
	for _, end := range []*End{&s.Source, &s.Target} {
		if end.Pod != nil && !slices.ContainsFunc(pods, func(o contract.PodObservation) bool {
			return o.UID == end.Pod.UID
		}) {
			end.Pod = entity.AsGone(end.Pod)
		}
	}
	for _, o := range pods {
		switch {
		case s.Source.Pod != nil && s.Source.Pod.UID == o.UID:
			s.Source.Pod = &o
		case s.Target.Pod != nil && s.Target.Pod.UID == o.UID:
			s.Target.Pod = &o
		case o.Migration == s.Object.UID && !s.Target.hasPod():
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

// adoptVMIStatus takes over what the instance's status has of this migration (nil: nothing), and what its pods do.
// Network is the only one that the guest may be moved over ("": any).
func (s *State) adoptVMIStatus(state *contract.MigrationState, network string) {
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
		s.Settings = &contract.ConfigureMigrationResult{Policy: state.PolicyName, Network: network}
		if state.Configuration != nil {
			s.Settings.Configuration = *state.Configuration
		}
	}
	switch {
	case s.Phase == PhaseSucceeded, state != nil && state.Completed && !state.Failed:
		s.Result = ResultMoved
	case s.Phase == PhaseFailed, state != nil && state.Failed:
		s.Result = ResultStayed
		if state != nil && state.FailureReason != wordFailed { // the event adds these words
			s.Reason = state.FailureReason
		}
	case s.Target.Pod != nil && (s.Target.Pod.ComputeRunning || s.Target.hasEnded()),
		state != nil && s.Target.Pod == nil:
		s.MoveUnknown = "this workflow has no memory of it"
	}
	if s.Target.Pod != nil {
		s.Admission.Admitted, s.PrepareSent = true, true
	}
	if s.Phase != PhaseUnset && s.Claim.Stage == "" {
		s.Claim.Stage = contract.StageClaim // it may have been reserved
	}
}
