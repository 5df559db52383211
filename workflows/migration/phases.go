package migration

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
)

// Phase is a migration's status.phase.
type Phase string

// Phases of a migration, with KubeVirt's names.
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

// Phases returns all phases, in order.
func Phases() []Phase {
	return []Phase{PhaseUnset, PhasePending, PhaseScheduling, PhaseScheduled, PhasePreparingTarget, PhaseTargetReady,
		PhaseRunning, PhaseSucceeded, PhaseFailed}
}

// Final reports whether a phase has no successor.
func (p Phase) Final() bool { return p == PhaseSucceeded || p == PhaseFailed }

// Rule is one row of the table of phases: from one of From, when When holds, to To. The first row that matches applies.
type Rule struct {
	From []Phase
	To   Phase
	Name string // the condition in words, for diagrams and pages
	When func(*State) bool
}

// Rules returns the table of phases. advance applies rows until none matches.
func Rules() []Rule {
	open := Phases()[:7]
	return []Rule{
		{From: open, To: PhaseFailed, Name: "the guest stays, or has ended", When: (*State).hasFailed},
		{From: []Phase{PhaseUnset}, To: PhasePending, Name: "seen", When: func(*State) bool { return true }},
		{From: open[1:], To: PhaseSucceeded, Name: "the instance confirms that its guest has moved",
			When: (*State).hasMoved},
		{From: []Phase{PhasePending}, To: PhaseScheduling, Name: "the target has a pod", When: func(s *State) bool {
			return s.Target.Pod != nil
		}},
		{From: []Phase{PhaseScheduling}, To: PhaseScheduled, Name: "the target's pod runs", When: func(s *State) bool {
			return s.Target.isRunning()
		}},
		{From: []Phase{PhaseScheduled}, To: PhasePreparingTarget, Name: "the instance confirms the hand-off",
			When: func(s *State) bool { return s.isHandedOff() && s.isAnswered() || s.Prepared != nil || s.Begun }},
		{From: []Phase{PhasePreparingTarget}, To: PhaseTargetReady, Name: "the target waits for the guest",
			When: func(s *State) bool { return s.Prepared != nil || s.Begun }},
		{From: []Phase{PhaseTargetReady}, To: PhaseRunning, Name: "the guest is moved",
			When: func(s *State) bool { return s.Begun }},
	}
}

// hasFailed reports whether the migration has failed, and its target was withdrawn.
func (s *State) hasFailed() bool { return s.Result == ResultStayed && !s.canWithdraw() }

// hasMoved reports whether the guest has moved, and the instance has confirmed it.
func (s *State) hasMoved() bool { return s.Result == ResultMoved && s.isAnswered() }

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

// phaseTime returns when a phase was entered; zero: it was not.
func (s *State) phaseTime(p Phase) time.Time {
	for _, t := range s.PhaseTimes {
		if t.Phase == string(p) {
			return t.Time
		}
	}
	return time.Time{}
}
