package migration

import (
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// SourceIs is what is true of a guest at the end that it is to leave.
type SourceIs string

// What is true there. It is never guessed: what does not answer, and has not ended by its kubelet's word, is unknown.
const (
	SourceUntouched SourceIs = "runs, and was never asked to move"
	SourceRuns      SourceIs = "runs"
	SourceWaits     SourceIs = "paused by a move that has ended"
	SourceMoves     SourceIs = "is moved, with a session"
	SourceCut       SourceIs = "is moved, without a session"
	SourceProof     SourceIs = "off, with proof"
	SourceOff       SourceIs = "off for another reason"
	SourceGone      SourceIs = "gone, and nobody knows how it ended"
	SourceUnknown   SourceIs = "unknown"
)

// TargetIs is what is true at the end that it is to be moved to.
type TargetIs string

// What is true there.
const (
	TargetAbsent   TargetIs = "nothing came"
	TargetIncoming TargetIs = "incoming"
	TargetHeld     TargetIs = "held"
	TargetGoesOn   TargetIs = "goes on" // or has gone on there, and ended since
	TargetOff      TargetIs = "ended"   // and the guest has never gone on there
	TargetUnknown  TargetIs = "unknown"
)

// Sources and Targets are all that there are.
func Sources() []SourceIs {
	return []SourceIs{SourceUntouched, SourceRuns, SourceWaits, SourceMoves, SourceCut, SourceProof, SourceOff,
		SourceGone, SourceUnknown}
}

// Targets are all that there are.
func Targets() []TargetIs {
	return []TargetIs{TargetAbsent, TargetIncoming, TargetHeld, TargetGoesOn, TargetOff, TargetUnknown}
}

// Verdict is what follows from both.
type Verdict string

// The verdicts.
const (
	VerdictNotBegun  Verdict = "not begun: go on with the steps"
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

// Ruling is one row of the table of verdicts. Rows are tried in order.
type Ruling struct {
	Source  []SourceIs
	Target  []TargetIs
	Verdict Verdict
	Why     string
}

// Rulings is the table of verdicts. A target goes on only by a grant, and a grant is given only with the source's
// proof, which is for good.
func Rulings() []Ruling {
	here := []SourceIs{SourceUntouched, SourceRuns, SourceWaits}
	never := []TargetIs{TargetAbsent, TargetOff}
	any := Targets()
	return []Ruling{
		{here, []TargetIs{TargetGoesOn}, VerdictRunsTwice, "a guest that was resumed there has left its source for good"},
		{[]SourceIs{SourceUntouched}, []TargetIs{TargetAbsent, TargetIncoming, TargetOff, TargetUnknown},
			VerdictNotBegun, "nobody has asked the source to move it"},
		{here, any, VerdictStayed, "the source has given no proof, so the target was not resumed, and will not be"},
		{[]SourceIs{SourceMoves}, any, VerdictAttach, "the node workers carry it on, whoever looks"},
		{[]SourceIs{SourceCut}, []TargetIs{TargetGoesOn}, VerdictAgain, "the source has not heard of its end yet"},
		{[]SourceIs{SourceCut}, any, VerdictAbort, "nobody carries its streams"},
		{[]SourceIs{SourceProof}, []TargetIs{TargetHeld}, VerdictFinish, "the guest can never run at the source again"},
		{[]SourceIs{SourceProof}, []TargetIs{TargetGoesOn}, VerdictMoved, "it goes on at the target"},
		{[]SourceIs{SourceProof}, []TargetIs{TargetIncoming}, VerdictAgain, "the target has not heard of its end yet"},
		{[]SourceIs{SourceProof}, never, VerdictLost, "it has left the source, and the target ended before it went on"},
		{[]SourceIs{SourceProof, SourceOff, SourceGone}, []TargetIs{TargetUnknown}, VerdictWait,
			"it may go on at the target"},
		{[]SourceIs{SourceOff, SourceGone, SourceUnknown}, []TargetIs{TargetGoesOn}, VerdictMoved,
			"it was resumed, so there was proof"},
		{[]SourceIs{SourceOff, SourceGone}, any, VerdictEnded, "it ended at the source, and never left it"},
		{[]SourceIs{SourceUnknown}, never, VerdictStayed, "it is not at the target, and will not be"},
		{[]SourceIs{SourceUnknown}, any, VerdictWait, "it may run at the source"},
	}
}

// Judge looks up the verdict.
func Judge(source SourceIs, target TargetIs) Ruling {
	for _, r := range Rulings() {
		if contains(r.Source, source) && contains(r.Target, target) {
			return r
		}
	}
	return Ruling{Verdict: VerdictWait}
}

// sourceIs reads what a launcher says of itself (nil: it was not asked, or did not answer), and what its pod left.
func sourceIs(t *contract.MigrationTruth, pod *contract.PodObservation) SourceIs {
	switch {
	case t != nil && t.Outcome != nil && t.Outcome.Proof != nil, left(pod):
		return SourceProof
	case t != nil && t.Session && !t.Reached:
		return SourceMoves
	case t == nil || !t.Reached:
	case t.Domain.State == contract.DomainShutoff && t.Domain.Reason == contract.ReasonMigrated:
		return SourceProof
	case t.Domain.State == contract.DomainShutoff || t.Domain.State == contract.DomainCrashed:
		return SourceOff
	case t.Session:
		return SourceMoves
	case t.UnderWay:
		return SourceCut
	case t.Domain.State == contract.DomainAbsent:
		return SourceUnknown // it has not said yet how its guest is
	case !t.Known:
		return SourceUntouched
	case t.Domain.State == contract.DomainPaused && t.Domain.Reason == contract.PausedMigration:
		return SourceWaits
	default:
		return SourceRuns
	}
	switch {
	case pod == nil:
		return SourceUnknown
	case (pod.Gone || pod.Ended()) && termination(pod).Reason == "": // killed, or nobody has seen its end
		return SourceGone
	case pod.Gone || pod.Ended():
		return SourceOff
	default:
		return SourceUnknown
	}
}

// targetIs is that for the other end.
func targetIs(t *contract.MigrationTruth, pod *contract.PodObservation) TargetIs {
	switch {
	case pod == nil:
		return TargetOff
	case pod.Gone || pod.Ended():
		if termination(pod).Ran {
			return TargetGoesOn
		}
		return TargetOff
	case t == nil || !t.Reached:
		return TargetUnknown
	case t.Resumed || t.Granted:
		return TargetGoesOn
	case t.Held:
		return TargetHeld
	case t.UnderWay:
		return TargetIncoming
	case !t.Known:
		return TargetAbsent
	default:
		return TargetOff
	}
}

// left says that the source's launcher has left the proof as its last words: they stay with its pod when the node is
// gone.
func left(pod *contract.PodObservation) bool {
	return pod != nil && pod.ExitCode != nil && termination(pod).Reason == contract.ReasonMigrated
}

// termination reads a launcher's last words.
func termination(pod *contract.PodObservation) contract.TerminationMessage {
	var t contract.TerminationMessage
	if pod.TerminationMessage != "" && entity.Unmarshal([]byte(pod.TerminationMessage), &t) != nil {
		return contract.TerminationMessage{}
	}
	return t
}

// proof is the source's, by what was seen of it; nil: there is none.
func proof(t *contract.MigrationTruth, pod *contract.PodObservation) *contract.MigrationProof {
	switch {
	case t != nil && t.Outcome != nil && t.Outcome.Proof != nil:
		return t.Outcome.Proof
	case t != nil && t.Domain.State == contract.DomainShutoff && t.Domain.Reason == contract.ReasonMigrated:
		return &contract.MigrationProof{By: contract.ProofLibvirt}
	case left(pod):
		return &contract.MigrationProof{By: contract.ProofProcess, Paused: termination(pod).Paused}
	default:
		return nil
	}
}

func contains[T comparable](list []T, x T) bool {
	for _, y := range list {
		if x == y {
			return true
		}
	}
	return false
}
