package migration

import (
	"fmt"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Look is what was seen last at both ends.
type Look struct {
	At    time.Time `json:"at,omitzero"`
	Count int       `json:"count,omitempty"`
	// News says that something was heard of one of the ends since.
	News    bool     `json:"news,omitempty"`
	Source  SourceIs `json:"source,omitempty"`
	Target  TargetIs `json:"target,omitempty"`
	Verdict Verdict  `json:"verdict,omitempty"`
	Why     string   `json:"why,omitempty"`
	// Trouble is why the node that is waited for has not answered ("": it has, or was not asked).
	Trouble string `json:"trouble,omitempty"`
}

// at is when both ends are to be looked at again; zero: now.
func (l Look) at() time.Time {
	switch {
	case l.Count == 0:
		return time.Time{}
	case l.News:
		return l.At.Add(lookNews)
	default:
		return l.At.Add(pause(l.Count, lookFirst))
	}
}

// text says what is waited for.
func (l Look) text(s *State) string {
	switch l.Verdict {
	case VerdictWait:
		return fmt.Sprintf("node %s: %s (source: %s, target: %s)%s", s.silentNode(), l.Why, l.Source, l.Target,
			l.trouble())
	case VerdictRunsTwice:
		return "a person: the guest seems to run at both ends, and nothing is touched"
	default:
		return "what is true at both ends: " + s.MoveUnknown
	}
}

// trouble says why the node does not answer.
func (l Look) trouble() string {
	if l.Trouble == "" {
		return ""
	}
	return "; it does not answer: " + l.Trouble
}

// silentNode is the one that does not answer.
func (s *State) silentNode() string {
	if s.Look.Target == TargetUnknown {
		return s.Target.node()
	}
	return s.Source.node()
}

// looked takes in what the nodes say of both ends (nil: there was nobody to ask, or no answer), and what follows.
func (s *State) looked(now time.Time, source, target *contract.MigrationTruth) {
	was := s.Look
	from, to := sourceIs(source, s.Source.Pod), targetIs(target, s.Target.Pod)
	r := Judge(from, to)
	s.Look = Look{At: now, Count: was.Count + 1, Source: from, Target: to, Verdict: r.Verdict, Why: r.Why}
	if from != was.Source || to != was.Target {
		s.Look.Count = 1
	}
	reason := ""
	if source != nil && source.Outcome != nil {
		reason = source.Outcome.Reason
		if s.Outcome == nil || s.Outcome.Result == contract.ResultLost {
			s.Outcome = source.Outcome
		}
	}
	switch r.Verdict {
	case VerdictNotBegun:
		if s.MoveUnknown = ""; s.Begun {
			s.fails(wordNotBegun)
		} else if s.handedOff() {
			s.HandOffAt = now // the instance is asked once more
		}
	case VerdictStayed:
		s.stays(reason)
	case VerdictEnded:
		s.fails(wordEnded)
	case VerdictLost:
		s.fails(wordGuestLost)
	case VerdictAttach:
		s.MoveUnknown = ""
		s.begin(now)
	case VerdictFinish:
		s.MoveUnknown, s.Proof = "", proof(source, s.Source.Pod)
	case VerdictMoved:
		if target != nil {
			s.Domain = &target.Domain
		}
		s.moves(now)
	case VerdictAbort:
		s.AbortSent = false // once after each look
	case VerdictAgain, VerdictWait, VerdictRunsTwice:
	}
}

// begin notes that the source was asked to move the guest, now or before this was known.
func (s *State) begin(now time.Time) {
	s.Begun, s.AbortSent, s.Outcome = true, false, nil
	if s.Start.IsZero() {
		s.Start = now
	}
	s.CopyBy = s.Start.Add(s.copyTime())
}

// moves notes that the guest goes on at the target.
func (s *State) moves(now time.Time) {
	s.MoveUnknown, s.Result = "", ResultMoved
	if s.End.IsZero() {
		s.End = now
	}
	if s.Start.IsZero() {
		s.Start = s.HandOffAt
	}
}

// stays notes that it does not, and why, where that is known.
func (s *State) stays(reason string) {
	s.MoveUnknown, s.Result, s.Proof = "", ResultStayed, nil
	if s.Reason == "" {
		s.Reason = reason
	}
}

// fails notes that it does not, and says why to whoever looks at the migration.
func (s *State) fails(word string) {
	if s.Cause == "" {
		s.Cause = word
	}
	s.stays(word)
}

// ended takes in how the source says that it ended. What proves that the guest has left it says more than anything but
// that it goes on.
func (s *State) ended(now time.Time, o contract.MigrationOutcome) {
	if o.Result != contract.ResultMoved && (s.Proof != nil || s.Result != ResultNone) {
		return
	}
	s.Outcome = &o
	switch o.Result {
	case contract.ResultMoved:
		if o.Target != nil && s.Target.Pod != nil && o.Target.PodUID != s.Target.Pod.UID {
			s.unknown(now, "the source tells of a move to another pod") // before etcd was put back, with the same UID
			return
		}
		s.Domain = o.Target
		s.moves(now)
	case contract.ResultSourceOff:
		if s.Proof = o.Proof; s.Proof == nil {
			s.unknown(now, o.Reason)
		}
	case contract.ResultStayed:
		s.stays(o.Reason)
	case contract.ResultGuestEnded:
		s.fails(wordEnded)
	default:
		s.unknown(now, o.Reason)
	}
}

// leftPause is how long after the end of the source's pod its session may take to say how it went: it lets the target
// go on itself.
const leftPause = time.Second

// sourceLeft says that the source's pod has ended with the guest's departure, and nobody has said yet how it went on.
func (s *State) sourceLeft() bool {
	return s.Begun && s.MoveUnknown == "" && s.Proof == nil && left(s.Source.Pod)
}

// refreshLeft takes the pod's last words for the source's proof: the node's worker that has to give it may be gone.
func (s *State) refreshLeft(now time.Time) {
	switch {
	case s.LeftBy.IsZero():
		s.LeftBy = now.Add(leftPause)
	case !now.Before(s.LeftBy):
		s.Proof = proof(nil, s.Source.Pod)
	}
}

// unknown has both ends looked at, because the outcome of the move is unknown.
// What has led to that before may do so again: then they are looked at after a pause.
func (s *State) unknown(now time.Time, why string) {
	if why == "" {
		why = "its outcome is not known"
	}
	s.MoveUnknown, s.Look, s.Proof = why, Look{At: now, Count: s.UnknownCount}, nil
	s.UnknownCount++
}
