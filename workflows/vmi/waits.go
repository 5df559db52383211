package vmi

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// How long a wait may take until the VMI shows it.
const (
	// slowBoot is for a placed pod whose containers do not start without a reason in its status.
	slowBoot = 2 * time.Minute
	// slowEnd is added to the time that Kubernetes gives a pod to end.
	slowEnd = 30 * time.Second
)

// minGraceSeconds is the shortest grace period that a kubelet knows. 0 would also make the API server delete the pod
// object at once.
const minGraceSeconds int64 = 1

// graceOverride returns the grace period to delete the pod with, in seconds, if the VMI's was changed after the pod was
// made; nil: the pod's own is right.
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
		seconds = minGraceSeconds
	}
	return &seconds
}

// needsShorterGrace reports whether the pod is being deleted with a longer grace period than the VMI has by now. A
// grace period can only be shortened.
func (l *Launcher) needsShorterGrace(vmi *contract.VMIObservation) bool {
	grace := l.graceOverride(vmi)
	if grace == nil || l.Pod.DeletionTimestamp == nil || l.hasPodEnded() || l.isFenced() {
		return false
	}
	sent := l.PodGrace != nil && *l.PodGrace <= *grace
	return !sent && l.Pod.DeletionGraceSeconds != nil && *l.Pod.DeletionGraceSeconds > *grace
}

// isUnawareOfShorterGrace reports whether the launcher still uses a grace period that has been shortened since. The
// kubelet does not change the period with which it has begun, and the launcher knows the VMI as it was when the pod was
// made.
func (l *Launcher) isUnawareOfShorterGrace(vmi *contract.VMIObservation) bool {
	if !l.GraceShortened || vmi == nil || l.hasPodEnded() || l.isFenced() || !l.Pod.ComputeRunning ||
		l.Pod.NodeName == "" {
		return false
	}
	return l.EndGrace == nil || contract.Grace(vmi.GracePeriodSeconds) < contract.Grace(l.EndGrace)
}

// hasMissedSignal reports whether this entity deleted the pod while its containers started. The kernel drops a signal
// to the first process of a container until that has a handler, and the kubelet sends no other one before the grace
// period has passed. If the launcher did receive the signal, a second one changes nothing.
func (l *Launcher) hasMissedSignal() bool {
	return l.PodDeletedEarly && !l.EndSent && l.Pod.DeletionTimestamp != nil && l.Pod.ComputeRunning &&
		l.Pod.NodeName != ""
}

// slowWait is a wait that has lasted longer than it should.
type slowWait struct {
	Since  time.Time // when it is shown
	Reason string    // of condition Synchronized
	What   string
}

// nextSlowWait returns the wait that is shown, or that is shown next; nil: there is no wait without bound.
func (s *State) nextSlowWait() *slowWait {
	for _, l := range s.launchers() {
		if w := l.slowPodEnd(); w != nil {
			return w
		}
	}
	if since, ok := s.silentSince(); ok {
		return &slowWait{Since: since.Add(slowBoot), Reason: "LauncherPodNotRunning", What: fmt.Sprintf(
			"the containers of pod %s have not started since %s, without a reason in its status: see the pod's events",
			s.Pod.Name, since.UTC().Format(time.RFC3339))}
	}
	return nil
}

// slowPodEnd returns the wait for the end of the pod, if the pod is being deleted.
func (l *Launcher) slowPodEnd() *slowWait {
	if !l.hasPod() || l.Pod.DeletionTimestamp == nil {
		return nil
	}
	at := *l.Pod.DeletionTimestamp
	w := &slowWait{Since: at.Add(slowEnd), Reason: contract.ReasonFailedDelete}
	others := entity.Without(l.Pod.Finalizers, contract.FinalizerPod)
	switch {
	case !l.hasPodEnded():
		w.What = fmt.Sprintf("pod %s on node %s was to have ended by %s, but its kubelet has not reported its end",
			l.Pod.Name, l.nodeName(), at.UTC().Format(time.RFC3339))
	case len(others) > 0:
		w.What = fmt.Sprintf("pod %s has ended, but finalizers that are not virtflow's keep it: %s", l.Pod.Name,
			strings.Join(others, ", "))
	default:
		return nil
	}
	return w
}

// nextWake returns the earliest time at which the state changes by itself (zero: never).
func (s *State) nextWake(now time.Time) time.Time {
	var at time.Time
	earlier := func(t time.Time) {
		if now.Before(t) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, t := range slices.Concat(s.nodeAlarms(), s.migrationAlarms(s.scope())) {
		earlier(t)
	}
	if w := s.nextSlowWait(); w != nil {
		earlier(w.Since)
	}
	earlier(s.nextEventsRead())
	if s.awaitedVolumes() != nil {
		earlier(s.AwaitsUntil)
	}
	return at
}

// launcherProblem returns the condition Synchronized: why there is no launcher yet, why its containers do not start, or
// what its guest lacks. It returns nil if there is no problem.
func (s *State) launcherProblem(now time.Time) *contract.Condition {
	c := contract.Condition{Type: "Synchronized", Status: "False"}
	if w := s.awaitedVolumes(); w != nil && w.Reason != contract.ReasonDataVolumesWait {
		c.Reason, c.Message = w.Reason, w.Message
		return &c
	}
	if s.Phase == PhaseScheduling && s.Pod != nil && s.Pod.WaitingReason != "" {
		c.Reason, c.Message = s.Pod.WaitingReason, s.Pod.WaitingMessage
		return &c
	}
	if _, ok := s.silentSince(); ok && s.warning() != nil {
		c.Reason, c.Message = s.warning().Reason, s.warning().Message
		return &c
	}
	if w := s.nextSlowWait(); w != nil && !now.Before(w.Since) {
		c.Reason, c.Message = w.Reason, w.What
		return &c
	}
	if p := s.guestProblem(); p != "" {
		c.Reason, c.Message = reasonDomainFailed, p
		return &c
	}
	return nil
}

// guestProblem returns what a running guest lacks until its next start; "": nothing.
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
