package migration

import (
	"slices"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// SourceState is the state of the guest at the source.
type SourceState string

// States of the source. An end that does not answer, and whose pod has not ended by its kubelet's report, is unknown.
const (
	SourceUntouched   SourceState = "runs, and was never asked to move"
	SourceRuns        SourceState = "runs"
	SourcePaused      SourceState = "paused by a move that has ended"
	SourceMoving      SourceState = "is moved, with a session"
	SourceSessionLost SourceState = "is moved, without a session"
	SourceProof       SourceState = "off, with proof"
	SourceOff         SourceState = "off for another reason"
	SourceGone        SourceState = "gone, with an unknown end"
	SourceUnknown     SourceState = "unknown"
)

// TargetState is the state of the guest at the target.
type TargetState string

// States of the target.
const (
	TargetAbsent   TargetState = "nothing came"
	TargetIncoming TargetState = "incoming"
	TargetHeld     TargetState = "held"
	TargetResumed  TargetState = "resumed" // or was resumed there, and has ended since
	TargetEnded    TargetState = "ended"   // and the guest was never resumed there
	TargetUnknown  TargetState = "unknown"
)

// Sources returns all states of the source.
func Sources() []SourceState {
	return []SourceState{SourceUntouched, SourceRuns, SourcePaused, SourceMoving, SourceSessionLost, SourceProof,
		SourceOff, SourceGone, SourceUnknown}
}

// Targets returns all states of the target.
func Targets() []TargetState {
	return []TargetState{TargetAbsent, TargetIncoming, TargetHeld, TargetResumed, TargetEnded, TargetUnknown}
}

// Verdict is the consequence of the states of both ends.
type Verdict string

// The verdicts.
const (
	VerdictNotBegun  Verdict = "not begun: continue with the steps"
	VerdictStayed    Verdict = "stayed: withdraw the target"
	VerdictAttach    Verdict = "under way: follow it"
	VerdictAbort     Verdict = "cut off: abort, and look again"
	VerdictFinish    Verdict = "left: resume the target"
	VerdictMoved     Verdict = "moved"
	VerdictEnded     Verdict = "the guest has ended: withdraw the target"
	VerdictLost      Verdict = "the guest is lost"
	VerdictAgain     Verdict = "changing: look again"
	VerdictWait      Verdict = "not known: wait for the node"
	VerdictRunsTwice Verdict = "it runs at both ends: touch nothing"
)

// VerdictRule is one row of the table of verdicts. The first row that matches applies.
type VerdictRule struct {
	Source  []SourceState
	Target  []TargetState
	Verdict Verdict
	Why     string
}

// VerdictRules returns the table of verdicts. A target resumes the guest only by a grant, and gets one only with the
// source's proof, which is final.
func VerdictRules() []VerdictRule {
	here := []SourceState{SourceUntouched, SourceRuns, SourcePaused}
	never := []TargetState{TargetAbsent, TargetEnded}
	any := Targets()
	return []VerdictRule{
		{here, []TargetState{TargetResumed}, VerdictRunsTwice,
			"a guest that was resumed there has left its source for good"},
		{[]SourceState{SourceUntouched}, []TargetState{TargetAbsent, TargetIncoming, TargetEnded, TargetUnknown},
			VerdictNotBegun, "the source was never asked to move it"},
		{here, any, VerdictStayed, "the source has given no proof, so the target was not resumed, and will not be"},
		{[]SourceState{SourceMoving}, any, VerdictAttach, "the node workers carry on by themselves"},
		{[]SourceState{SourceSessionLost}, []TargetState{TargetResumed},
			VerdictAgain, "the source does not report its end yet"},
		{[]SourceState{SourceSessionLost}, any, VerdictAbort, "no session carries its streams"},
		{[]SourceState{SourceProof}, []TargetState{TargetHeld},
			VerdictFinish, "the guest can never run at the source again"},
		{[]SourceState{SourceProof}, []TargetState{TargetResumed}, VerdictMoved, "it was resumed at the target"},
		{[]SourceState{SourceProof}, []TargetState{TargetIncoming},
			VerdictAgain, "the target does not report its end yet"},
		{[]SourceState{SourceProof}, never,
			VerdictLost, "it has left the source, and the target ended before it resumed"},
		{[]SourceState{SourceProof, SourceOff, SourceGone}, []TargetState{TargetUnknown}, VerdictWait,
			"it may run at the target"},
		{[]SourceState{SourceOff, SourceGone, SourceUnknown}, []TargetState{TargetResumed}, VerdictMoved,
			"it was resumed, so there was proof"},
		{[]SourceState{SourceOff, SourceGone}, any, VerdictEnded, "it ended at the source, and never left it"},
		{[]SourceState{SourceUnknown}, never, VerdictStayed, "it is not at the target, and will not be"},
		{[]SourceState{SourceUnknown}, any, VerdictWait, "it may run at the source"},
	}
}

// DecideVerdict returns the first row that matches.
func DecideVerdict(source SourceState, target TargetState) VerdictRule {
	for _, r := range VerdictRules() {
		if slices.Contains(r.Source, source) && slices.Contains(r.Target, target) {
			return r
		}
	}
	return VerdictRule{Verdict: VerdictWait}
}

// sourceState derives the source's state from its launcher's report (nil: not asked, or no answer) and its pod.
func sourceState(t *contract.MigrationTruth, pod *contract.PodObservation) SourceState {
	switch {
	case t != nil && t.Outcome != nil && t.Outcome.Proof != nil, hasLeft(pod):
		return SourceProof
	case t != nil && t.Session && !t.Reached:
		return SourceMoving
	case t == nil || !t.Reached:
	case t.Domain.State == contract.DomainShutoff && t.Domain.Reason == contract.ReasonMigrated:
		return SourceProof
	case t.Domain.State == contract.DomainShutoff || t.Domain.State == contract.DomainCrashed:
		return SourceOff
	case t.Session:
		return SourceMoving
	case t.UnderWay:
		return SourceSessionLost
	case t.Domain.State == contract.DomainAbsent:
		return SourceUnknown // it has not reported its guest yet
	case !t.Known:
		return SourceUntouched
	case t.Domain.State == contract.DomainPaused && t.Domain.Reason == contract.PausedMigration:
		return SourcePaused
	default:
		return SourceRuns
	}
	switch {
	case pod == nil:
		return SourceUnknown
	case (pod.Gone || pod.Ended()) && termination(pod).Reason == "": // killed, or its end was not observed
		return SourceGone
	case pod.Gone || pod.Ended():
		return SourceOff
	default:
		return SourceUnknown
	}
}

// targetState derives the target's state from its launcher's report (nil: not asked, or no answer) and its pod.
func targetState(t *contract.MigrationTruth, pod *contract.PodObservation) TargetState {
	switch {
	case pod == nil:
		return TargetEnded
	case pod.Gone || pod.Ended():
		if termination(pod).Ran {
			return TargetResumed
		}
		return TargetEnded
	case t == nil || !t.Reached:
		return TargetUnknown
	case t.Resumed || t.Granted:
		return TargetResumed
	case t.Held:
		return TargetHeld
	case t.UnderWay:
		return TargetIncoming
	case !t.Known:
		return TargetAbsent
	default:
		return TargetEnded
	}
}

// hasLeft reports whether the source's launcher has left the proof as its termination message, which stays with its pod
// when the node is gone.
func hasLeft(pod *contract.PodObservation) bool {
	return pod != nil && pod.ExitCode != nil && termination(pod).Reason == contract.ReasonMigrated
}

// termination returns a launcher's termination message; one that cannot be read counts as empty.
func termination(pod *contract.PodObservation) contract.TerminationMessage {
	var t contract.TerminationMessage
	if pod.TerminationMessage != "" && entity.Unmarshal([]byte(pod.TerminationMessage), &t) != nil {
		return contract.TerminationMessage{}
	}
	return t
}

// proof returns the source's proof, by what was seen of it; nil: there is none.
func proof(t *contract.MigrationTruth, pod *contract.PodObservation) *contract.MigrationProof {
	switch {
	case t != nil && t.Outcome != nil && t.Outcome.Proof != nil:
		return t.Outcome.Proof
	case t != nil && t.Domain.State == contract.DomainShutoff && t.Domain.Reason == contract.ReasonMigrated:
		return &contract.MigrationProof{By: contract.ProofLibvirt}
	case hasLeft(pod):
		return &contract.MigrationProof{By: contract.ProofProcess, Paused: termination(pod).Paused}
	default:
		return nil
	}
}
