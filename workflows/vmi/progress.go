package vmi

import (
	"cmp"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/contract"
)

// progressFraction bounds how often the status shows the progress of a copy. The launcher reports it every ten seconds.
// It is shown when the copy has taken a tenth longer than at the last time, so a copy of a minute shows every report,
// and one of a day about seventy.
const progressFraction = 10

// refreshProgress takes the progress of the copy from the guest's domain.
func (m *Migrations) refreshProgress(d *contract.DomainObservation, now time.Time) {
	r := m.Migration
	if r == nil || r.hasEnded() || d == nil || d.Migration == nil || d.Migration.UID != r.Migration.UID ||
		*d.Migration == r.Progress {
		return
	}
	if r.ProgressFrom.IsZero() {
		r.ProgressFrom = now
	}
	if now.Sub(r.ProgressAt) >= now.Sub(r.ProgressFrom)/progressFraction {
		r.Progress, r.ProgressAt = *d.Migration, now
	}
}

// progressCondition returns the condition that shows the progress of the copy or, if scheduling is true, that the
// target's pod has no node; nil: there is nothing to show.
func (m *Migrations) progressCondition(ls *Launchers, scheduling bool) *contract.Condition {
	r := m.Migration
	if r == nil || r.hasEnded() {
		return nil
	}
	if r.Progress != (contract.MigrationProgress{}) {
		return &contract.Condition{Type: contract.ConditionMigrationProgress, Status: "True", Reason: "Copying",
			Message: r.Progress.Text()}
	}
	if p := ls.unscheduledTarget(r.Migration.UID); p != nil && scheduling {
		return &contract.Condition{Type: contract.ConditionMigrationProgress, Status: "False",
			Reason: cmp.Or(p.Unschedulable.Reason, "Unschedulable"), Message: fmt.Sprintf(
				"pod %s, for migration %s, has no node: %s", p.Name, r.Migration.Name, p.Unschedulable.Message)}
	}
	return nil
}
