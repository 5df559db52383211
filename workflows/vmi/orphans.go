package vmi

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// orphanTime is how long the pod of a migration that is not known to exist is left to that migration's workflow. If
// there should be such a workflow, it is started again within a minute.
const orphanTime = time.Minute

// isOrphaned reports whether a migration made this pod and is not known to exist: its object was removed with its
// finalizer, or etcd was restored to a time when the pod existed.
func (m *Migrations) isOrphaned(l *Launcher) bool {
	switch r := m.Migration; {
	case l.Pod.Migration == "" || l.Pod.MigrationName == "" || !l.hasPod() || l.hasPodEnded() || l.PodDeleted:
		return false
	case r != nil && r.Migration.UID == l.Pod.Migration:
		return !r.MissingSince.IsZero()
	default:
		return true
	}
}

// refreshOrphans records since when each pod is orphaned.
func (m *Migrations) refreshOrphans(ls *Launchers, now time.Time) {
	for i := range ls.Others {
		l := &ls.Others[i]
		if !m.isOrphaned(l) {
			l.OrphanedSince = time.Time{}
		} else if l.OrphanedSince.IsZero() {
			l.OrphanedSince = now
		}
	}
}

// decideOrphans deletes orphaned pods. It does so only while the guest is observed in the current pod and is not
// moving: a guest may have left a node that does not report.
func (m *Migrations) decideOrphans(in scope, now time.Time) (decision, bool) {
	if in.phase != PhaseRunning || !in.isDomainIn(contract.DomainRunning, contract.DomainPaused) ||
		in.isPausedByMigration() || in.Domain.Migration != nil || in.hasPodEnded() || in.isNodeUnreachable() {
		return decision{}, false
	}
	for i := range in.Others {
		l := &in.Others[i]
		if l.isDomainIn(contract.DomainRunning, contract.DomainPaused) {
			continue
		}
		if m.isOrphaned(l) && !l.OrphanedSince.IsZero() && !now.Before(l.OrphanedSince.Add(orphanTime)) {
			return l.decision(actDeleteOrphan, "the migration that made it is not known to exist")
		}
	}
	return decision{}, false
}

// deleteOrphan deletes an orphaned pod. The activity refuses if the migration exists after all, or if the guest runs in
// the pod.
func (e *instance) deleteOrphan(ctx workflow.Context, uid string) error {
	s := &e.state
	l := s.launcher(uid)
	in := contract.DeleteMigrationPodInput{VMI: s.Object, Pod: e.podOf(l), Orphaned: true, Migration: contract.Object{
		Namespace: s.Object.Namespace, Name: l.Pod.MigrationName, UID: l.Pod.Migration}}
	r, err := entity.Call[contract.DeleteMigrationPodResult](ctx, contract.ActivityDeleteMigrationPod,
		string(actDeleteOrphan), in)
	if l = s.launcher(uid); err == nil && l != nil {
		if r.Refused == "" {
			l.PodDeleted = true
			l.markGone(r.Absent)
		} else {
			l.OrphanedSince = workflow.Now(ctx).Add(findPodAfter)
			workflow.GetLogger(ctx).Info("kept the pod of a migration", "pod", l.Pod.Name, "why", r.Refused)
		}
	}
	return e.recordResult(ctx, actDeleteOrphan, err)
}
