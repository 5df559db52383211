package vmi

import (
	"fmt"
	"strings"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// How long something may take until the VMI shows that it waits for it.
const (
	// endSettle: a deletion that is through by then writes nothing but the patch that releases the VMI.
	endSettle = 10 * time.Second
	// slowBoot is for a placed pod whose containers do not start, and say no reason.
	slowBoot = 2 * time.Minute
	// slowEnd comes on top of the time that Kubernetes gives a pod to end.
	slowEnd = 30 * time.Second
)

// atOnce is the shortest grace period that a kubelet knows, in seconds. 0 would also mean that the API server is to
// forget the pod.
const atOnce int64 = 1

// graceOverride is the grace period to delete the pod with when the VMI's own was changed after the pod was made, in
// seconds, or nil: the pod's own is right.
func (l *Launcher) graceOverride(vmi *contract.VMIObservation) *int64 {
	if vmi == nil || l.Pod == nil || l.Pod.GraceSeconds == nil {
		return nil
	}
	grace := vmi.GracePeriodSeconds
	seconds := contract.PodGrace(grace)
	switch {
	case seconds == *l.Pod.GraceSeconds:
		return nil
	case contract.Grace(grace) == 0:
		seconds = atOnce
	}
	return &seconds
}

// hurry says that the pod is being deleted with more time than the VMI gives it by now. A grace period can only be cut
// short.
func (l *Launcher) hurry(vmi *contract.VMIObservation) bool {
	grace := l.graceOverride(vmi)
	if grace == nil || l.Pod.DeletionTimestamp == nil || l.podEnded() || l.fenced() {
		return false
	}
	sent := l.PodGrace != nil && *l.PodGrace <= *grace
	return !sent && l.Pod.DeletionGraceSeconds != nil && *l.Pod.DeletionGraceSeconds > *grace
}

// missedSignal says that this entity deleted the pod as its containers began. The kernel drops a signal to the first
// process of a container until that has a handler, and the kubelet sends no other one until the grace period has
// passed. Where the launcher did hear it, being told once more changes nothing.
func (l *Launcher) missedSignal() bool {
	return l.PodDeletedEarly && !l.EndSent && l.Pod.DeletionTimestamp != nil && l.Pod.ComputeRunning &&
		l.Pod.NodeName != ""
}

// slow is a wait that has lasted for longer than it should.
type slow struct {
	Since  time.Time // from when on it shows
	Reason string    // of condition Synchronized
	What   string
}

// slowness is the wait that shows next, or shows already; nil: nothing is waited for that could last for ever without a
// word.
func (s *State) slowness() *slow {
	for _, l := range s.launchers() {
		if w := l.slowEnd(); w != nil {
			return w
		}
	}
	if !s.podHeld() || s.podEnded() {
		return nil
	}
	if s.Phase != PhaseScheduling || s.Pod.Unschedulable != nil || s.Pod.WaitingReason != "" {
		return nil
	}
	for _, t := range s.PhaseTimes {
		if t.Phase == string(PhaseScheduling) {
			return &slow{Since: t.Time.Add(slowBoot), Reason: "LauncherPodNotRunning", What: fmt.Sprintf(
				"the containers of pod %s have not started since %s, and nothing says why: look at the pod's events",
				s.Pod.Name, t.Time.UTC().Format(time.RFC3339))}
		}
	}
	return nil
}

// slowEnd is that for the end of a pod.
func (l *Launcher) slowEnd() *slow {
	if !l.podHeld() || l.Pod.DeletionTimestamp == nil {
		return nil
	}
	at := *l.Pod.DeletionTimestamp
	w := &slow{Since: at.Add(slowEnd), Reason: contract.ReasonFailedDelete}
	others := entity.Without(l.Pod.Finalizers, contract.FinalizerPod)
	switch {
	case !l.podEnded():
		w.What = fmt.Sprintf("pod %s on node %s was to have ended by %s, but its kubelet has not said that it did",
			l.Pod.Name, l.nodeName(), at.UTC().Format(time.RFC3339))
	case len(others) > 0:
		w.What = fmt.Sprintf("pod %s has ended, but finalizers that are not virtflow's keep it: %s", l.Pod.Name,
			strings.Join(others, ", "))
	default:
		return nil
	}
	return w
}

// alarm is the earliest time at which the state changes by itself (zero: never).
func (s *State) alarm(now time.Time) time.Time {
	var at time.Time
	earlier := func(t time.Time) {
		if now.Before(t) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, l := range s.launchers() {
		if l.away() {
			earlier(l.lostAt())
			if l.node().Gone {
				earlier(l.goneAt())
				earlier(l.ForceDeletedAt.Add(killTime))
			}
		}
	}
	if w := s.slowness(); w != nil {
		earlier(w.Since)
	}
	for i := range s.Others {
		if since := s.Others[i].OrphanedSince; !since.IsZero() {
			earlier(since.Add(orphanTime))
		}
	}
	for _, t := range s.claimAlarm() {
		earlier(t)
	}
	if s.lacking() != nil {
		earlier(s.AwaitsUntil)
	}
	return at
}

// launcherProblem is why there is no launcher yet, or what keeps its containers from starting, or what its guest lacks,
// as condition Synchronized says it, or nil.
func (s *State) launcherProblem(now time.Time) *contract.Condition {
	c := contract.Condition{Type: "Synchronized", Status: "False"}
	if w := s.lacking(); w != nil && !s.populating() {
		c.Reason, c.Message = w.Reason, w.Message
		return &c
	}
	if s.Phase == PhaseScheduling && s.Pod != nil && s.Pod.WaitingReason != "" {
		c.Reason, c.Message = s.Pod.WaitingReason, s.Pod.WaitingMessage
		return &c
	}
	if w := s.slowness(); w != nil && !now.Before(w.Since) {
		c.Reason, c.Message = w.Reason, w.What
		return &c
	}
	if p := s.guestProblem(); p != "" {
		c.Reason, c.Message = reasonDomainFailed, p
		return &c
	}
	return nil
}

// guestProblem is what a guest that runs does without until it is started again; "": nothing.
func (s *State) guestProblem() string {
	switch {
	case s.Phase != PhaseRunning || s.Pod == nil:
		return ""
	case s.Domain != nil && s.Domain.Problem != "":
		return s.Domain.Problem
	case s.Unseen != nil && s.Unseen.Pod == s.Pod.UID:
		return s.Unseen.Message
	default:
		return ""
	}
}
