package vmi

import (
	"time"

	"github.com/virtflow/virtflow/contract"
)

// arrivalTime is how long after the guest has left its pod the migration may take to report the move. It is KubeVirt's
// figure.
const arrivalTime = time.Minute

// messageNeverArrived is the message of KubeVirt's event for a guest that left its node and runs nowhere.
const messageNeverArrived = "The VirtualMachineInstance's domain was never observed on the target after the " +
	"migration completed within the timeout period."

// hasArrived reports whether the guest continues in this pod.
func (l *Launcher) hasArrived() bool {
	return l.isDomainIn(contract.DomainRunning) || l.isDomainIn(contract.DomainPaused) && !l.isPausedByMigration()
}

// isPausedByMigration reports whether the guest is paused in this pod until the other end of its migration is ready.
func (l *Launcher) isPausedByMigration() bool {
	return l.isDomainIn(contract.DomainPaused) && l.Domain.Reason == contract.PausedMigration
}

// isGuestPaused reports whether the guest's CPUs are paused, as the readiness gate and the condition Paused show it.
// While it is moving, the moment in which it changes from one pod to the other does not count.
func (l *Launcher) isGuestPaused(moving bool) bool {
	return l.isDomainIn(contract.DomainPaused) && (!l.isPausedByMigration() || !moving)
}

// hasLeft reports whether the guest has moved out of this pod for good. That is not the end of the guest.
func (l *Launcher) hasLeft() bool {
	if l.isDomainIn(contract.DomainShutoff, contract.DomainCrashed) && l.Domain.Reason == contract.ReasonMigrated {
		return true
	}
	return l.hasPodEnded() && l.termination().Reason == contract.ReasonMigrated
}

// findTarget returns the pod that the guest moves to, or may have moved to; nil if no such pod is alive.
func (m *Migrations) findTarget(in scope) *Launcher {
	if m.Migration == nil {
		return in.target("")
	}
	return in.target(m.Migration.Migration.UID)
}

// mayHaveLeft reports whether the guest may run at its target although its pod ended without reporting a move: the pod
// was killed, or its node is off. The migration asks both ends. A guest's end that the launcher reports counts, unless
// the target is known to run the guest.
func (m *Migrations) mayHaveLeft(in scope) bool {
	r := m.Migration
	crashed := in.isDomainIn(contract.DomainShutoff, contract.DomainCrashed)
	if r == nil || r.Stage == contract.StageClaim || r.Stage == contract.StageStayed || in.Pod == nil ||
		in.Pod.Migration == r.Migration.UID || !in.hasPodEnded() && !crashed {
		return false
	}
	l := m.findTarget(in)
	if l == nil {
		return !in.hasPodOf(r.Migration.UID) && (in.Stale || !r.TargetSearched)
	}
	return l.hasArrived() || !crashed && in.termination().Reason == ""
}

// hasDeparted reports whether the guest has left the current pod, or may have: then its migration finds out.
func (m *Migrations) hasDeparted(in scope) bool { return in.hasLeft() || m.mayHaveLeft(in) }

// refreshMigration updates the current migration from what is known.
func (m *Migrations) refreshMigration(in scope, now time.Time) {
	if m.Migration != nil {
		m.refreshHolder(in, now)
	}
	if r := m.Migration; r != nil {
		r.refreshStage(in, now)
		if in.phase == PhaseRunning && m.mayHaveLeft(in) && !in.hasPodOf(r.Migration.UID) && !r.TargetSearched {
			r.TargetSearched = true
			in.ReadAgain()
		}
	}
	m.refreshDeparture(in, now)
}

// refreshHolder handles a migration that may no longer exist.
func (m *Migrations) refreshHolder(in scope, now time.Time) {
	r := m.Migration
	r.refreshNames(in)
	r.scheduleQuestion(now)
	if r.Migration.Name == "" && !r.hasEnded() && !now.Before(r.AskAt) {
		m.noteMissing(in, now) // its name is unknown, so it cannot be asked
	}
	if r.MissingSince.IsZero() || in.Stale || r.hasEnded() {
		return
	}
	switch l := m.findTarget(in); {
	case r.Stage == contract.StageClaim:
		if !now.Before(r.MissingSince.Add(orphanTime)) {
			m.Migration = nil
		}
	case l == nil && !in.hasLeft():
		r.endStayed(now, "the migration is gone, and so is its target")
	case l != nil && m.hasDeparted(in) && l.hasArrived():
		r.Stage = contract.StageMoved
		r.complete(now, "")
	}
}

// refreshNames completes a reservation that was adopted from the status, which has neither the migration's name nor the
// UID of the source's pod.
func (r *Reservation) refreshNames(in scope) {
	if r.Migration.Name == "" {
		for _, l := range in.launchers() {
			if l.Pod.Migration == r.Migration.UID {
				r.Migration.Name = l.Pod.MigrationName
			}
		}
	}
	if r.Source.UID == "" && in.Pod != nil && in.Pod.Name == r.Source.Name {
		r.Source.UID = in.Pod.UID
	}
}

// refreshStage does what follows from the migration's stage.
func (r *Reservation) refreshStage(in scope, now time.Time) {
	if in.VMI.Gone && r.hasEnded() {
		r.Written = r.Stage // the VMI is gone: there is no status to write
	}
	switch {
	case r.Stage == contract.StageCopying && r.CopyingBy.IsZero():
		r.CopyingBy = now.Add(copySettle)
	case r.Stage == contract.StageMoved:
		r.makeTargetCurrent(in)
	}
}

// makeTargetCurrent makes the target's pod the current one, since the guest runs there. An unknown pod is searched for
// once.
func (r *Reservation) makeTargetCurrent(in scope) {
	switch changed, known := in.makeCurrent(r.Migration.UID); {
	case !known:
		in.ReadAgainIf(!r.TargetSearched)
		r.TargetSearched = true
	case changed && r.Domain != nil && r.Domain.PodUID == in.Pod.UID:
		in.Launcher.observeDomain(*r.Domain)
	}
}

// refreshDeparture records since when the guest has left its pod while no migration has reported its arrival, searches
// for it, and at last decides that it has never arrived.
func (m *Migrations) refreshDeparture(in scope, now time.Time) {
	r, l := m.Migration, m.findTarget(in)
	if in.phase != PhaseRunning || !m.hasDeparted(in) || r != nil && r.Stage == contract.StageMoved && l != nil {
		m.LeftSince, m.GuestSearched = time.Time{}, false
		return
	}
	if m.LeftSince.IsZero() {
		m.LeftSince = now
		if r != nil && !in.hasLeft() {
			r.AnswerDue = true // it may not know yet that the pod has ended
		}
	}
	switch {
	case now.Before(m.LeftSince.Add(arrivalTime)) || in.Stale:
	case !m.GuestSearched:
		m.GuestSearched = true
		in.ReadAgain()
		if r != nil {
			r.AnswerDue = true
		}
	case l == nil, m.isAbandoned(now) && !l.hasArrived():
		m.NeverArrived = true
		if r != nil && !r.hasEnded() {
			r.endStayed(now, messageNeverArrived)
		}
	}
}

// isAbandoned reports whether a guest that has left its pod had time enough to arrive, and no migration is known to be
// responsible for it.
func (m *Migrations) isAbandoned(now time.Time) bool {
	if r := m.Migration; r != nil && (r.MissingSince.IsZero() || now.Before(r.MissingSince.Add(askAfter))) {
		return false
	}
	return !now.Before(m.LeftSince.Add(askAfter))
}

// migrationAlarms returns the times at which the state of a migration changes by itself.
func (m *Migrations) migrationAlarms(in scope) []time.Time {
	var at []time.Time
	if r := m.Migration; r != nil && !r.hasEnded() {
		at = append(at, r.AskAt)
	}
	if m.Arriving {
		at = append(at, m.arrivalBy(in))
	}
	if last := m.MigrationState; last.Ended() && in.hasOtherPod() {
		at = append(at, last.End.Add(findPodAfter))
	}
	if !m.LeftSince.IsZero() {
		at = append(at, m.LeftSince.Add(arrivalTime), m.LeftSince.Add(askAfter))
		if r := m.Migration; r != nil && !r.MissingSince.IsZero() {
			at = append(at, r.MissingSince.Add(askAfter))
		}
	}
	for _, l := range in.Others {
		if !l.OrphanedSince.IsZero() {
			at = append(at, l.OrphanedSince.Add(orphanTime))
		}
	}
	return at
}

// migrationEndBy returns until when the pods of an instance that is being deleted since then stay because its migration
// ends first. It returns zero if they are deleted at once, as those of a guest without grace period are.
func (m *Migrations) migrationEndBy(in scope, since, now time.Time) time.Time {
	until := since.Add(migrationEndTime)
	if !m.isMoving() || !now.Before(until) || contract.Grace(in.VMI.GracePeriodSeconds) == 0 {
		return time.Time{}
	}
	return until
}

// isLeftToMigration reports whether a migration ends this pod: its target's pod, or the source's once the migration has
// ended.
func (m *Migrations) isLeftToMigration(l *Launcher, in scope, now time.Time) bool {
	r, last := m.Migration, m.MigrationState
	switch {
	case in.isDeleting(), l.PodDeleted:
		return false
	case l == &in.Launcher:
		return in.phase == PhaseRunning && in.hasLeft()
	case r != nil && (l.Pod.Migration == r.Migration.UID || l.Pod.UID == r.Source.UID):
		return r.MissingSince.IsZero()
	default:
		return last.Ended() && (l.Pod.Name == last.SourcePod || l.Pod.Name == last.TargetPod) &&
			now.Before(last.End.Add(findPodAfter))
	}
}
