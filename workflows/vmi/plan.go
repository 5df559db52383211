package vmi

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

// findPodAfter is how long the end of a pod is awaited before the pod is read.
const findPodAfter = 5 * time.Minute

type (
	action   = entity.Action
	decision = entity.Decision
)

// Steps. Metrics have these names as a label, and the state keeps that of a failed step.
const (
	actFindPod            = action("look for the launcher pod")
	actCreatePod          = action("create the launcher pod")
	actStartDomain        = action("start the domain")
	actCancelStart        = action("cancel the start of the domain")
	actMarkPod            = action("open the readiness gate")
	actDeletePod          = action("delete the launcher pod")
	actDeleteOrphan       = action("delete a launcher pod whose migration is gone")
	actEndLauncher        = action("tell the launcher to end")
	actForceDeletePod     = action("force-delete the pod on its fenced node")
	actRemovePodFinalizer = action("remove the finalizer of the launcher pod")
	actRemoveFinalizers   = action("remove the finalizers of the VMI")
	actAnswerMigration    = action("answer the migration")
	actResize             = action("let the guest see that its disks have grown")
	actReadWarning        = action("look why the launcher pod does not start")
)

// decide is the planner: pure and total.
func (s *State) decide(now time.Time) decision {
	return s.postpone(s.decideByUrgency(now), now).WakeBy(s.nextWake(now))
}

// decideByUrgency returns the most urgent step.
func (s *State) decideByUrgency(now time.Time) decision {
	if s.VMI == nil {
		return s.withBackoff(s.decideOrphan(now), now)
	}
	if s.Stale && !s.VMI.Gone {
		return s.withBackoff(decision{Action: entity.ActRead,
			Why: "the known state may be incomplete or outdated"}, now)
	}
	if s.Stale && s.hasAnyPod() {
		// No observation reports a pod that etcd no longer has, or that only an older copy of this workflow knew.
		return s.withBackoff(decision{Action: actFindPod, Why: "its pods may be gone as well"}, now)
	}
	claim, ok := s.decideReservation(now)
	late := ok && s.isDeleting() && s.Failure.MustWait(claim.Step(), now) // its failure must not delay the deletion
	if ok && !late {
		return s.withBackoff(claim, now)
	}
	if s.Pod == nil && (s.isDeleting() || !slices.Contains([]Phase{PhaseUnset, PhasePending}, s.Phase)) {
		// Adopted without its history: whether it has a pod must be known before anything is decided.
		return s.withBackoff(decision{Action: actFindPod,
			Why: "the VirtualMachineInstance is older than this workflow"}, now)
	}
	if d, ok := s.decideEnding(now); ok {
		if late && d.Action == entity.ActNone {
			d = claim
		}
		return s.withBackoff(d, now)
	}
	if d, ok := s.decideBoot(now); ok {
		return s.withBackoff(d, now)
	}
	if d, ok := s.decideOrphans(s.scope(), now); ok {
		return s.withBackoff(d, now)
	}
	if d, ok := s.decideEventsRead(now); ok {
		return d
	}
	if d, ok := s.decideGrown(); ok {
		return s.withBackoff(d, now)
	}
	return s.withBackoff(s.decideStatus(now), now)
}

// decideReservation sends migrations their answers, after the status has been written.
func (s *State) decideReservation(now time.Time) (decision, bool) {
	if s.hasUnwrittenStage() && !s.VMI.Gone {
		if d := s.decideStatus(now); d.Action != "" {
			return d, true
		}
	}
	if to, _, due := s.nextAnswer(s.scope(), now); due {
		return decision{Action: actAnswerMigration, Object: to.UID,
			Why: "an answer to migration " + to.Name + " is due"}, true
	}
	return decision{}, false
}

// decideOrphan decides about a pod whose VMI was never observed. The VMI is being garbage collected, and the pod must
// not stay for ever.
func (s *State) decideOrphan(now time.Time) decision {
	switch {
	case s.Pod == nil && s.NeverSeen:
		return decision{Action: entity.ActFinish, Why: "the VirtualMachineInstance was gone before it was observed"}
	case s.Pod == nil:
		return decision{Waiting: waits.For(waits.FirstObservation, "the VirtualMachineInstance")}
	case !s.hasAnyPod() && s.Next != nil:
		return decision{Action: entity.ActNext, Why: "the pod of an earlier object of the same name is gone"}
	case !s.hasAnyPod():
		return decision{Action: entity.ActFinish, Why: "the pod is gone, and no VirtualMachineInstance was observed"}
	}
	for _, l := range s.launchers() {
		d, ok := l.decideEnded()
		if ok && (d.Action != actRemovePodFinalizer || l.Pod.DeletionTimestamp != nil) {
			return d
		}
	}
	switch {
	case !now.Before(s.FindPodAt):
		return decision{Action: entity.ActRead,
			Why: "the entity knows a pod, and not its VirtualMachineInstance"}
	default:
		return decision{WakeAt: s.FindPodAt,
			Waiting: waits.For(waits.OwnerObservation, "VirtualMachineInstance", s.Pod.Name)}
	}
}

// withBackoff replaces a step that has failed by a wait until its next attempt is due.
func (s *State) withBackoff(d decision, now time.Time) decision {
	status := s.decideStatus // it shows the failure
	if s.VMI == nil || s.Stale || d.Action == actRemoveFinalizers {
		status = nil
	}
	return s.Failure.WithBackoff(d, now, status)
}

// decideEnding deletes the pods of a VMI that is being deleted, and removes the VMI's finalizers when all pods are
// gone.
func (s *State) decideEnding(now time.Time) (decision, bool) {
	var late decision // a step that failed for one pod must not delay the deletion of another
	for _, l := range s.launchers() {
		d, ok := l.decideEnded()
		switch {
		case !ok, d.Action == actRemovePodFinalizer && s.isLeftToMigration(l, s.scope(), now):
		case s.isDeleting() && s.Failure.MustWait(d.Step(), now):
			late = d
		default:
			return d, true
		}
	}
	if !s.isDeleting() {
		return decision{}, false
	}
	if until := s.migrationEndBy(s.scope(), s.EndingSince, now); !until.IsZero() {
		d := s.decideStatus(now).Or(waits.For(waits.MigrationEnd, s.Migration.Migration.Name))
		return d.WakeBy(until), true
	}
	all := s.launchers()
	if s.Migration != nil {
		slices.Reverse(all) // the target first
	}
	for _, l := range all {
		if d, ok := l.decideDelete(s.VMI); ok {
			return d, true
		}
	}
	if late.Action != entity.ActNone {
		return late, true
	}
	if s.hasAnyPod() {
		d := s.decideStatus(now)
		switch {
		case d.Action != entity.ActNone:
		case !now.Before(s.FindPodAt):
			d = decision{Action: actFindPod, Why: "its end has not been observed for five minutes"}
		default:
			d = decision{WakeAt: entity.Sooner(d.WakeAt, s.FindPodAt),
				Waiting: waits.For(waits.GuestShutdown)}
		}
		return d, true
	}
	return s.decideGone(), true
}

// decideGone ends a VMI that is being deleted once its pods are gone.
func (s *State) decideGone() decision {
	switch {
	case s.Starting && !s.StartCancelled:
		return decision{Action: actCancelStart, Why: "its pod is gone"}
	case s.Starting:
		return decision{Waiting: waits.For(waits.StartCancellation)}
	case s.VMI.Gone && s.Next != nil:
		return decision{Action: entity.ActNext, Why: "an object of the same name and another UID exists"}
	case s.VMI.Gone:
		return decision{Action: entity.ActFinish, Why: "the VirtualMachineInstance is gone"}
	case len(s.ownFinalizers()) > 0 && s.hasUnshownEnd():
		return decision{Action: entity.ActWrite, Why: "its guest has ended"}
	case len(s.ownFinalizers()) > 0:
		return decision{Action: actRemoveFinalizers, Why: "its pod is gone"}
	default:
		return decision{Waiting: waits.For(waits.OtherFinalizers, "VirtualMachineInstance")}
	}
}

// hasUnshownEnd reports whether the guest of a VMI that is being deleted has ended, and the VMI does not show it yet.
// The patch that removes the last finalizer comes too late for that: a watch reports a removed VMI as it was before the
// patch. A write that has failed must not delay the deletion.
func (s *State) hasUnshownEnd() bool {
	_, ran := phaseSince(s.PhaseTimes, PhaseRunning)
	return s.isDeleting() && ran && s.Phase.Final() && !Phase(s.VMI.Phase).Final() &&
		s.Failure.OfStep(string(entity.ActWrite)) == nil && s.HasChange(contract.ChangeAfterFirst)
}

// decideBoot decides the steps from a new VMI to a running guest.
func (s *State) decideBoot(now time.Time) (decision, bool) {
	switch s.Phase {
	case PhaseUnset, PhasePending:
		if s.Pod == nil && !s.isAwaitingVolumes(now) {
			return decision{Action: actCreatePod, Why: "the VirtualMachineInstance has no launcher pod"}, true
		}
	case PhaseScheduled:
		if !s.Starting && !s.hasPodEnded() && s.Pod.DeletionTimestamp == nil && s.Pod.Migration == "" {
			return decision{Action: actStartDomain, Why: "its pod runs on " + s.Pod.NodeName}, true
		}
	case PhaseRunning:
		return s.decideRunning(s.statusNode(), s.Starting, s.isMoving())
	case PhaseScheduling, PhaseSucceeded, PhaseFailed:
	}
	return decision{}, false
}

// decideRunning decides about the current pod of a guest that runs, or is moving: its domain is observed, and the
// pod's readiness gate follows the guest. Node is the one that the VMI's status names, and starting means that the
// domain is being started.
func (l *Launcher) decideRunning(node string, starting, moving bool) (decision, bool) {
	if !l.isBooted(node) || l.hasPodEnded() || l.Pod.DeletionTimestamp != nil {
		return decision{}, false
	}
	if l.Domain == nil && !starting && l.Pod.ComputeRunning {
		return decision{Action: actStartDomain,
			Why: "its guest runs on " + l.Pod.NodeName + ", but its domain was not observed"}, true
	}
	switch paused := l.isGuestPaused(moving); {
	case !l.needsMark(paused):
		return decision{}, false
	case paused:
		return decision{Action: actMarkPod, Why: "the guest is paused"}, true
	default:
		return decision{Action: actMarkPod, Why: "the guest runs"}, true
	}
}

// decideStatus writes the status if it differs from the written one, unless it is about to change again by itself.
func (s *State) decideStatus(now time.Time) decision {
	unknown := s.Phase == PhaseRunning && s.Domain == nil || s.Pod == nil &&
		!slices.Contains([]Phase{PhaseUnset, PhasePending}, s.Phase)
	if s.VMI.Gone || unknown && (s.Pod == nil || !s.hasUrgentProblem() && !s.hasUnwrittenStage()) {
		return decision{Waiting: s.waiting()}
	}
	if !s.needsWrite() {
		return decision{Waiting: s.waiting()}
	}
	if until := s.gatedUntil(s.gateScope(), now); !until.IsZero() {
		return decision{WakeAt: until, Waiting: s.waiting()}
	}
	return decision{Action: entity.ActWrite, Why: "the status differs from the written one"}
}

// gateScope returns what the status gate depends on.
func (s *State) gateScope() gateScope {
	return gateScope{Launchers: &s.Launchers, Migrations: &s.Migrations, phase: s.Phase, deleting: s.isDeleting(),
		unshownEnd: s.hasUnshownEnd(), failed: s.Failure != nil, urgent: s.hasUrgentProblem(),
		arrivalBy: s.arrivalBy(s.scope())}
}

// waiting returns what an entity without a next step waits for, for people.
func (s *State) waiting() waits.Wait {
	switch s.Phase {
	case PhaseScheduling:
		switch {
		case s.Pod == nil:
			return waits.For(waits.FirstObservation, "the launcher pod")
		case s.Pod.Unschedulable != nil:
			return waits.For(waits.LauncherNode, s.Pod.Unschedulable.Message)
		case s.Pod.WaitingReason != "":
			return waits.For(waits.LauncherImages, s.Pod.WaitingReason, s.Pod.WaitingMessage)
		case s.warning() != nil:
			return waits.For(waits.LauncherObstacle, s.warning().Message)
		default:
			return waits.For(waits.LauncherRunning)
		}
	case PhaseScheduled:
		return waits.For(waits.DomainStart)
	case PhaseRunning:
		if s.hasDeparted(s.scope()) {
			return waits.For(waits.DepartedGuest)
		}
		if !s.isPodReady() {
			return waits.For(waits.PodReady)
		}
		return waits.For(waits.Nothing, "the guest runs")
	case PhaseSucceeded, PhaseFailed:
		return waits.For(waits.Nothing, s.Explanation)
	default:
		if w := s.awaitedVolumes(); w != nil {
			return waits.For(waits.Volumes, w.Message)
		}
		return waits.For(waits.NextObservation)
	}
}
