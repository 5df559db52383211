package migration

import (
	"cmp"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/waits"
)

// Inspection has the last reports of both ends, and their verdict.
type Inspection struct {
	At    time.Time `json:"at,omitzero"`
	Count int       `json:"count,omitempty"`
	// News is set when an observation of one of the ends has arrived since.
	News    bool        `json:"news,omitempty"`
	Source  SourceState `json:"source,omitempty"`
	Target  TargetState `json:"target,omitempty"`
	Verdict Verdict     `json:"verdict,omitempty"`
	Why     string      `json:"why,omitempty"`
	// Trouble is why the awaited node has not answered ("": it has, or was not asked).
	Trouble string `json:"trouble,omitempty"`
}

// dueAt returns when both ends are to be inspected again; zero: now.
func (l Inspection) dueAt() time.Time {
	switch {
	case l.Count == 0:
		return time.Time{}
	case l.News:
		return l.At.Add(lookNews)
	default:
		return l.At.Add(backoff(l.Count, lookFirst))
	}
}

// waiting returns what is waited for.
func (l Inspection) waiting(s *State) waits.Wait {
	switch l.Verdict {
	case VerdictWait:
		return waits.For(waits.SilentNode, s.silentNode(), l.Why, l.Source, l.Target, l.troubleText())
	case VerdictRunsTwice:
		return waits.For(waits.GuestAtBothEnds)
	default:
		return waits.For(waits.Inspection, s.MoveUnknown)
	}
}

// troubleText returns why the node does not answer.
func (l Inspection) troubleText() string {
	if l.Trouble == "" {
		return ""
	}
	return "; it does not answer: " + l.Trouble
}

// silentNode returns the node that does not answer.
func (s *State) silentNode() string {
	if s.Inspection.Target == TargetUnknown {
		return s.Target.nodeName()
	}
	return s.Source.nodeName()
}

// recordInspection folds in the nodes' reports of both ends (nil: not asked, or no answer), and applies the verdict.
func (s *State) recordInspection(now time.Time, source, target *contract.MigrationTruth) {
	was := s.Inspection
	from, to := sourceState(source, s.Source.Pod), targetState(target, s.Target.Pod)
	r := DecideVerdict(from, to)
	s.Inspection = Inspection{At: now, Count: was.Count + 1, Source: from, Target: to, Verdict: r.Verdict, Why: r.Why}
	if from != was.Source || to != was.Target {
		s.Inspection.Count = 1
	}
	reason := ""
	if s.Outcome != nil { // why its outcome was unknown
		reason = s.Outcome.Reason
	}
	if source != nil && source.Outcome != nil {
		reason = cmp.Or(source.Outcome.Reason, reason)
		if s.Outcome == nil || s.Outcome.Result == contract.ResultLost {
			s.Outcome = source.Outcome
		}
	}
	switch r.Verdict {
	case VerdictNotBegun:
		if s.MoveUnknown = ""; s.Begun {
			s.failWith(wordNotBegun)
		} else if s.isHandedOff() {
			s.HandOffAt = now // the instance gets the request once more
		}
	case VerdictStayed:
		s.recordStayed(reason)
	case VerdictEnded:
		s.failWith(wordEnded)
	case VerdictLost:
		s.failWith(wordGuestLost)
	case VerdictAttach:
		s.MoveUnknown = ""
		s.recordBegun(now)
	case VerdictFinish:
		s.MoveUnknown, s.Proof = "", proof(source, s.Source.Pod)
	case VerdictMoved:
		if target != nil {
			s.Domain = &target.Domain
		}
		s.recordMoved(now)
	case VerdictAbort:
		s.AbortSent = false // once after each inspection
	case VerdictAgain, VerdictWait, VerdictRunsTwice:
	}
}

// recordBegun notes that the source was asked to move the guest, now or in an earlier run.
func (s *State) recordBegun(now time.Time) {
	s.Begun, s.AbortSent, s.Outcome = true, false, nil
	if s.Start.IsZero() {
		s.Start = now
	}
	s.CopyBy = s.Start.Add(s.copyTime())
}

// recordMoved notes that the guest runs at the target.
func (s *State) recordMoved(now time.Time) {
	s.MoveUnknown, s.Result = "", ResultMoved
	if s.End.IsZero() {
		s.End = now
	}
	if s.Start.IsZero() {
		s.Start = s.HandOffAt
	}
}

// recordStayed notes that the guest does not run at the target, and why, where that is known.
func (s *State) recordStayed(reason string) {
	s.MoveUnknown, s.Result, s.Proof = "", ResultStayed, nil
	if s.Reason == "" {
		s.Reason = reason
	}
}

// failWith notes that the guest does not run at the target, and why, for the migration's status.
func (s *State) failWith(word string) {
	if s.Cause == "" {
		s.Cause = word
	}
	s.recordStayed(word)
}

// recordOutcome folds in the source's report of how the move ended. The proof that the guest has left counts more than
// any other report, except for one that it runs at the target.
func (s *State) recordOutcome(now time.Time, o contract.MigrationOutcome) {
	if o.Result != contract.ResultMoved && (s.Proof != nil || s.Result != ResultNone) {
		return
	}
	s.Outcome = &o
	switch o.Result {
	case contract.ResultMoved:
		if o.Target != nil && s.Target.Pod != nil && o.Target.PodUID != s.Target.Pod.UID {
			// Before etcd was put back, the pod had the same UID.
			s.markMoveUnknown(now, "the source reports a move to another pod")
			return
		}
		s.Domain = o.Target
		s.recordMoved(now)
	case contract.ResultSourceOff:
		if s.Proof = o.Proof; s.Proof == nil {
			s.markMoveUnknown(now, o.Reason)
		}
	case contract.ResultStayed:
		s.recordStayed(o.Reason)
	case contract.ResultGuestEnded:
		s.failWith(wordEnded)
	default:
		s.markMoveUnknown(now, o.Reason)
	}
}

// leftPause is how long the source's session may take, after the end of its pod, to report the outcome: it resumes the
// target itself.
const leftPause = time.Second

// hasSourceLeft reports whether the source's pod has ended because its guest left, and no outcome was reported yet.
func (s *State) hasSourceLeft() bool {
	return s.Begun && s.MoveUnknown == "" && s.Proof == nil && hasLeft(s.Source.Pod)
}

// refreshLeft takes the pod's termination message for the source's proof: the node worker that has to give it may be
// gone.
func (s *State) refreshLeft(now time.Time) {
	switch {
	case s.LeftBy.IsZero():
		s.LeftBy = now.Add(leftPause)
	case !now.Before(s.LeftBy):
		s.Proof = proof(nil, s.Source.Pod)
	}
}

// markMoveUnknown marks the outcome of the move as unknown, so that both ends are inspected. What has led to that may
// do so again: then they are inspected after a pause.
func (s *State) markMoveUnknown(now time.Time, why string) {
	if why == "" {
		why = "its outcome is unknown"
	}
	s.MoveUnknown, s.Inspection, s.Proof = why, Inspection{At: now, Count: s.UnknownCount}, nil
	s.UnknownCount++
}
