package vmi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/virtflow/virtflow/contract"
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

// Final reports whether a phase has no successor.
func (p Phase) Final() bool { return p == PhaseSucceeded || p == PhaseFailed }

func (p Phase) isKnown() bool {
	return slices.Contains([]Phase{PhaseUnset, PhasePending, PhaseScheduling, PhaseScheduled, PhaseRunning,
		PhaseSucceeded, PhaseFailed}, p)
}

// Rule is one row of the table of phases: from one of From to To if When holds. Rows are tried in order.
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
			return s.isDeleting() && !s.hasPod()
		}},
		{From: early, To: PhaseScheduling, Name: "has a launcher pod", When: (*State).hasPod},
		{From: []Phase{PhaseUnset}, To: PhasePending, Name: "observed", When: func(*State) bool { return true }},
		// A guest that started and ended unobserved ends as the launcher reports it, not as a failed boot.
		{From: booting, To: PhaseRunning, Name: "the guest ran before its pod ended", When: func(s *State) bool {
			return s.hasPodEnded() && s.termination().Ran
		}},
		{From: booting, To: PhaseFailed, Name: "the pod ended or is gone", When: (*State).hasPodEnded},
		{From: booting, To: PhaseFailed, Name: "the domain could not be started", When: func(s *State) bool {
			return s.StartRefused
		}},
		{From: []Phase{PhaseScheduling}, To: PhaseFailed, Name: "the pod was deleted before it ran",
			When: func(s *State) bool {
				return s.hasPod() && s.Pod.DeletionTimestamp != nil
			}},
		{From: []Phase{PhaseScheduling}, To: PhaseScheduled, Name: "the pod runs", When: func(s *State) bool {
			return s.Pod != nil && s.Pod.ComputeRunning && s.Pod.NodeName != "" && !s.isDeleting()
		}},
		{From: []Phase{PhaseScheduled}, To: PhaseRunning, Name: "the domain runs", When: func(s *State) bool {
			return s.isDomainIn(contract.DomainRunning, contract.DomainPaused, contract.DomainShutdown,
				contract.DomainShutoff, contract.DomainCrashed)
		}},
		{From: []Phase{PhaseRunning}, To: PhaseSucceeded, Name: "the guest powered off", When: func(s *State) bool {
			return s.guestEnd() == endSucceeded
		}},
		{From: []Phase{PhaseRunning}, To: PhaseFailed, Name: "the guest crashed, was killed, or its pod vanished",
			When: func(s *State) bool {
				return s.guestEnd() == endFailed
			}},
		{From: []Phase{PhaseRunning}, To: PhaseFailed, Name: "the guest moved to a node and never arrived there",
			When: func(s *State) bool { return s.NeverArrived }},
	}
}

// advance applies the table until no row matches, and returns the rows that were applied.
func (s *State) advance() (entered []Rule) {
	rules := Rules()
	for range len(rules) {
		matched := false
		for _, r := range rules {
			if slices.Contains(r.From, s.Phase) && r.When(s) {
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

type guestEnding int

const (
	endNone guestEnding = iota
	endSucceeded
	endFailed
)

// guestEnd decides whether the guest has ended, and how. A guest that has left the current pod has not.
func (s *State) guestEnd() guestEnding {
	if s.hasDeparted(s.scope()) {
		return endNone
	}
	return s.Launcher.guestEnd(s.VMI)
}

// guestEnd decides whether the guest has ended in this pod, and how: from the domain's last state or, if none was
// observed, from the pod's termination message.
func (l *Launcher) guestEnd(vmi *contract.VMIObservation) guestEnding {
	reason := ""
	switch {
	case l.isDomainIn(contract.DomainShutoff, contract.DomainCrashed):
		reason = l.Domain.Reason
		if l.Domain.State == contract.DomainCrashed {
			reason = contract.ReasonCrashed
		}
	case l.Pod == nil:
		return endNone
	case l.isGuestOff():
		return endFailed
	case l.Pod.Gone && l.Pod.ExitCode == nil && l.Pod.Phase != "Succeeded":
		return endFailed
	case l.hasPodEnded():
		reason = l.termination().Reason
		if reason == "" && l.Pod.Phase == "Succeeded" {
			reason = contract.ReasonShutdown
		}
		if reason == "" && isDeleting(vmi) {
			// A launcher that is killed has no time for a termination message.
			reason = contract.ReasonDestroyed
		}
	default:
		return endNone
	}
	switch reason {
	case contract.ReasonShutdown, contract.ReasonNeverRan:
		return endSucceeded
	case contract.ReasonDestroyed:
		if vmi != nil && vmi.GracePeriodSeconds != nil && *vmi.GracePeriodSeconds == 0 {
			return endSucceeded
		}
		return endFailed
	default:
		return endFailed
	}
}

// endExplanation returns the reason for the VMI's end, for people.
func (s *State) endExplanation(rule Rule) string {
	if s.Pod == nil || !rule.To.Final() || s.hasLeft() {
		return rule.Name
	}
	t := s.termination()
	switch {
	case s.Failure != nil && s.StartRefused:
		return "the domain could not be started: " + s.Failure.Message
	case s.isDomainIn(contract.DomainShutoff, contract.DomainCrashed):
		return fmt.Sprintf("%s (domain %s, reason %s)", rule.Name, s.Domain.State, s.Domain.Reason)
	case s.isGuestOff():
		return s.Fenced.Why
	case t.Message != "":
		return fmt.Sprintf("%s: %s", rule.Name, t.Message)
	case t.Reason != "":
		return fmt.Sprintf("%s (%s)", rule.Name, t.Reason)
	default:
		return rule.Name
	}
}

// explainMemory adds that the kernel killed something in the container, most likely QEMU, for lack of memory. The
// launcher cannot know that; the kubelet reports it after the container has ended.
func (s *State) explainMemory() {
	const killed = "OOMKilled"
	if s.Phase.Final() && s.Pod != nil && s.Pod.ExitReason == killed && !strings.HasSuffix(s.Explanation, outOfMemory) {
		s.Explanation += outOfMemory
	}
}

const outOfMemory = "; its pod ran out of memory (OOMKilled): additionalGuestMemoryOverheadRatio of the KubeVirt " +
	"object gives every launcher more"
