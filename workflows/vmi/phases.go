package vmi

import (
	"fmt"
	"strings"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Phase is a VMI's status.phase.
type Phase string

// Phases of a VMI, as KubeVirt names them.
const (
	PhaseUnset      Phase = ""
	PhasePending    Phase = "Pending"
	PhaseScheduling Phase = "Scheduling"
	PhaseScheduled  Phase = "Scheduled"
	PhaseRunning    Phase = "Running"
	PhaseSucceeded  Phase = "Succeeded"
	PhaseFailed     Phase = "Failed"
)

// Final says that a phase has no successor.
func (p Phase) Final() bool { return p == PhaseSucceeded || p == PhaseFailed }

func (p Phase) known() bool {
	return contains([]Phase{PhaseUnset, PhasePending, PhaseScheduling, PhaseScheduled, PhaseRunning, PhaseSucceeded,
		PhaseFailed}, p)
}

// Rule is one row of the table of phases: from one of From, when When holds, to To. Rows are tried in order.
type Rule struct {
	From []Phase
	To   Phase
	Name string // the condition in words, for diagrams and explanations
	When func(*State) bool
}

// Rules is the table of phases. A state matches at most one chain of rows: rows are applied until none matches.
func Rules() []Rule {
	early := []Phase{PhaseUnset, PhasePending}
	booting := []Phase{PhaseScheduling, PhaseScheduled}
	return []Rule{
		{From: early, To: PhaseFailed, Name: "deleted before it had a pod", When: func(s *State) bool {
			return s.deleting() && !s.podHeld()
		}},
		{From: early, To: PhaseScheduling, Name: "has a launcher pod", When: (*State).podHeld},
		{From: []Phase{PhaseUnset}, To: PhasePending, Name: "seen", When: func(*State) bool { return true }},
		// A guest that was up and went down while nobody looked still ends as it ended, not as a failed boot.
		{From: booting, To: PhaseRunning, Name: "the guest ran before its pod ended", When: func(s *State) bool {
			return s.podEnded() && s.termination().Ran
		}},
		{From: booting, To: PhaseFailed, Name: "the pod ended or is gone", When: (*State).podEnded},
		{From: booting, To: PhaseFailed, Name: "the domain could not be started", When: func(s *State) bool {
			return s.StartRefused
		}},
		{From: []Phase{PhaseScheduling}, To: PhaseFailed, Name: "the pod is being deleted before it ran",
			When: func(s *State) bool {
				return s.podHeld() && s.Pod.DeletionTimestamp != nil
			}},
		{From: []Phase{PhaseScheduling}, To: PhaseScheduled, Name: "the pod runs", When: func(s *State) bool {
			return s.Pod != nil && s.Pod.ComputeRunning && s.Pod.NodeName != "" && !s.deleting()
		}},
		{From: []Phase{PhaseScheduled}, To: PhaseRunning, Name: "the domain runs", When: func(s *State) bool {
			return s.domainIn(contract.DomainRunning, contract.DomainPaused, contract.DomainShutdown,
				contract.DomainShutoff, contract.DomainCrashed)
		}},
		{From: []Phase{PhaseRunning}, To: PhaseSucceeded, Name: "the guest powered off", When: func(s *State) bool {
			return s.end() == endSucceeded
		}},
		{From: []Phase{PhaseRunning}, To: PhaseFailed, Name: "the guest crashed, was killed, or its pod vanished",
			When: func(s *State) bool {
				return s.end() == endFailed
			}},
		{From: []Phase{PhaseRunning}, To: PhaseFailed, Name: "the guest left for a node where it never arrived",
			When: func(s *State) bool { return s.NeverArrived }},
	}
}

// advance applies the table until no row matches, and returns the phases that were entered.
func (s *State) advance() (entered []Rule) {
	rules := Rules()
	for range len(rules) {
		matched := false
		for _, r := range rules {
			if contains(r.From, s.Phase) && r.When(s) {
				s.Phase = r.To
				entered = append(entered, r)
				matched = true
				break
			}
		}
		if !matched {
			break
		}
	}
	return entered
}

type ending int

const (
	endNone ending = iota
	endSucceeded
	endFailed
)

// end decides how a running guest has ended, from the domain's last state or, when that never came, from what the
// launcher left as its pod's termination message.
func (s *State) end() ending {
	reason := ""
	switch {
	case s.departed():
		return endNone
	case s.domainIn(contract.DomainShutoff, contract.DomainCrashed):
		reason = s.Domain.Reason
		if s.Domain.State == contract.DomainCrashed {
			reason = contract.ReasonCrashed
		}
	case s.Pod == nil:
		return endNone
	case s.off():
		return endFailed
	case s.Pod.Gone && s.Pod.ExitCode == nil && s.Pod.Phase != "Succeeded":
		return endFailed
	case s.podEnded():
		reason = s.termination().Reason
		if reason == "" && s.Pod.Phase == "Succeeded" {
			reason = contract.ReasonShutdown
		}
		if reason == "" && s.deleting() {
			// Cut short, the launcher has no time for last words.
			reason = contract.ReasonDestroyed
		}
	default:
		return endNone
	}
	switch reason {
	case contract.ReasonShutdown, contract.ReasonNeverRan:
		return endSucceeded
	case contract.ReasonDestroyed:
		if s.VMI != nil && s.VMI.GracePeriodSeconds != nil && *s.VMI.GracePeriodSeconds == 0 {
			return endSucceeded
		}
		return endFailed
	default:
		return endFailed
	}
}

// explain says in words why the VMI ended.
func (s *State) explain(rule Rule) string {
	if s.Pod == nil || !rule.To.Final() || s.left() {
		return rule.Name
	}
	t := s.termination()
	switch {
	case s.Failure != nil && s.StartRefused:
		return "the domain could not be started: " + s.Failure.Message
	case s.domainIn(contract.DomainShutoff, contract.DomainCrashed):
		return fmt.Sprintf("%s (domain %s, reason %s)", rule.Name, s.Domain.State, s.Domain.Reason)
	case s.off():
		return s.Fenced.Why
	case t.Message != "":
		return fmt.Sprintf("%s: %s", rule.Name, t.Message)
	case t.Reason != "":
		return fmt.Sprintf("%s (%s)", rule.Name, t.Reason)
	default:
		return rule.Name
	}
}

// explainMemory adds what the launcher cannot know, and the kubelet says when the container has ended: the kernel ended
// something in it, most likely QEMU, for want of memory.
func (s *State) explainMemory() {
	const killed = "OOMKilled"
	if s.Phase.Final() && s.Pod != nil && s.Pod.ExitReason == killed && !strings.HasSuffix(s.Explanation, outOfMemory) {
		s.Explanation += outOfMemory
	}
}

const outOfMemory = "; its pod ran out of memory (OOMKilled): additionalGuestMemoryOverheadRatio of the KubeVirt object " +
	"gives every launcher more"

func contains(list []Phase, p Phase) bool {
	for _, x := range list {
		if x == p {
			return true
		}
	}
	return false
}
