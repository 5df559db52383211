package migration

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Phase is a migration's status.phase.
type Phase string

// Phases, as KubeVirt names them.
const (
	PhaseUnset           Phase = ""
	PhasePending         Phase = contract.MigrationPending
	PhaseScheduling      Phase = contract.MigrationScheduling
	PhaseScheduled       Phase = contract.MigrationScheduled
	PhasePreparingTarget Phase = contract.MigrationPreparingTarget
	PhaseTargetReady     Phase = contract.MigrationTargetReady
	PhaseRunning         Phase = contract.MigrationRunning
	PhaseSucceeded       Phase = contract.MigrationSucceeded
	PhaseFailed          Phase = contract.MigrationFailed
)

// Phases are all of them, in order.
func Phases() []Phase {
	return []Phase{PhaseUnset, PhasePending, PhaseScheduling, PhaseScheduled, PhasePreparingTarget, PhaseTargetReady,
		PhaseRunning, PhaseSucceeded, PhaseFailed}
}

// Final says that a phase has no successor.
func (p Phase) Final() bool { return p == PhaseSucceeded || p == PhaseFailed }

// Rule is one row of the table of phases: from one of From, when When holds, to To. Rows are tried in order.
type Rule struct {
	From []Phase
	To   Phase
	Name string // the condition in words, for diagrams and explanations
	When func(*State) bool
}

// Rules is the table of phases. A state matches at most one chain of rows: rows are applied until none matches.
func Rules() []Rule {
	open := Phases()[:7]
	return []Rule{
		{From: open, To: PhaseFailed, Name: "the guest stays, or has ended", When: (*State).over},
		{From: []Phase{PhaseUnset}, To: PhasePending, Name: "seen", When: func(*State) bool { return true }},
		{From: open[1:], To: PhaseSucceeded, Name: "the instance says that its guest has moved", When: (*State).taken},
		{From: []Phase{PhasePending}, To: PhaseScheduling, Name: "the target has a pod", When: func(s *State) bool {
			return s.Target.Pod != nil
		}},
		{From: []Phase{PhaseScheduling}, To: PhaseScheduled, Name: "the target's pod runs", When: func(s *State) bool {
			return s.Target.runs()
		}},
		{From: []Phase{PhaseScheduled}, To: PhasePreparingTarget, Name: "the instance says that it is handed off",
			When: func(s *State) bool { return s.handedOff() && s.answered() || s.Prepared != nil || s.Begun }},
		{From: []Phase{PhasePreparingTarget}, To: PhaseTargetReady, Name: "the target waits for the guest",
			When: func(s *State) bool { return s.Prepared != nil || s.Begun }},
		{From: []Phase{PhaseTargetReady}, To: PhaseRunning, Name: "the guest is moved",
			When: func(s *State) bool { return s.Begun }},
	}
}

// over says that the migration has failed, and the target was told.
func (s *State) over() bool { return s.Result == ResultStayed && !s.mayWithdraw() }

// taken says that the instance has the guest at its new place.
func (s *State) taken() bool { return s.Result == ResultMoved && s.answered() }

// advance applies the table until no row matches.
func (s *State) advance(now time.Time) {
	rules := Rules()
	for range len(rules) {
		i := slices.IndexFunc(rules, func(r Rule) bool { return slices.Contains(r.From, s.Phase) && r.When(s) })
		if i < 0 {
			return
		}
		s.Phase = rules[i].To
		if s.phaseTime(s.Phase).IsZero() {
			s.PhaseTimes = append(slices.Clone(s.PhaseTimes),
				contract.PhaseTime{Phase: string(s.Phase), Time: now.Truncate(time.Second)})
		}
	}
}

// phaseTime is when a phase was entered; zero: it was not.
func (s *State) phaseTime(p Phase) time.Time {
	for _, t := range s.PhaseTimes {
		if t.Phase == string(p) {
			return t.Time
		}
	}
	return time.Time{}
}
