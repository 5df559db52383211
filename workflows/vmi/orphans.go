package vmi

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// orphanTime is how long the pod of a migration that is not heard of is left to whoever sees to that migration: its
// workflow is started again within a minute, where there is one to be.
const orphanTime = time.Minute

// orphaned says that a migration has made a pod, and is not heard of: its object was removed with its finalizer, or
// etcd was put back to when the pod was there.
func (s *State) orphaned(l *Launcher) bool {
	switch m := s.Migration; {
	case l.Pod.Migration == "" || l.Pod.MigrationName == "" || !l.podHeld() || l.podEnded() || l.PodDeleted:
		return false
	case m != nil && m.Migration.UID == l.Pod.Migration:
		return !m.MissingSince.IsZero()
	default:
		return true
	}
}

// refreshOrphans notes since when pods are.
func (s *State) refreshOrphans(now time.Time) {
	for i := range s.Others {
		l := &s.Others[i]
		if !s.orphaned(l) {
			l.OrphanedSince = time.Time{}
		} else if l.OrphanedSince.IsZero() {
			l.OrphanedSince = now
		}
	}
}

// decideOrphans takes orphaned pods away. The guest is where it is known to be for certain, and is not on its way: it
// may have left a node of which nothing is heard.
func (s *State) decideOrphans(now time.Time) (decision, bool) {
	if s.Phase != PhaseRunning || !s.domainIn(contract.DomainRunning, contract.DomainPaused) || s.midway() ||
		s.Domain.Migration != nil || s.podEnded() || s.away() {
		return decision{}, false
	}
	for i := range s.Others {
		l := &s.Others[i]
		if l.domainIn(contract.DomainRunning, contract.DomainPaused) {
			continue
		}
		if s.orphaned(l) && !l.OrphanedSince.IsZero() && !now.Before(l.OrphanedSince.Add(orphanTime)) {
			return l.decision(actDeleteOrphan, "nothing is heard of the migration that has made it")
		}
	}
	return decision{}, false
}

// deleteOrphan deletes such a pod, unless its migration is there after all, or the guest is.
func (e *instance) deleteOrphan(ctx workflow.Context, uid string) error {
	s := &e.state
	l := s.launcher(uid)
	in := contract.DeleteMigrationPodInput{VMI: s.Object, Pod: s.podOf(l), Orphaned: true, Migration: contract.Object{
		Namespace: s.Object.Namespace, Name: l.Pod.MigrationName, UID: l.Pod.Migration}}
	r, err := entity.Call[contract.DeleteMigrationPodResult](ctx, contract.ActivityDeleteMigrationPod,
		string(actDeleteOrphan), in)
	if l = s.launcher(uid); err == nil && l != nil {
		if r.Refused == "" {
			l.PodDeleted = true
			l.absent(r.Absent)
		} else {
			l.OrphanedSince = workflow.Now(ctx).Add(lookAgain)
			workflow.GetLogger(ctx).Info("a migration's pod is kept", "pod", l.Pod.Name, "why", r.Refused)
		}
	}
	return e.settle(ctx, actDeleteOrphan, err)
}
