package vmi

import (
	"time"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
)

// A guest's launcher says every ten seconds how far the copy is. The longer it has taken, the less often that is shown:
// when it has gone on for another tenth. So a copy of a minute shows each of them, and one of a day some seventy.
const progressShare = 10

// refreshProgress takes in how far the guest's launcher says that the copy is.
func (s *State) refreshProgress(now time.Time) {
	m := s.Migration
	if m == nil || m.over() || s.Domain == nil || s.Domain.Migration == nil ||
		s.Domain.Migration.UID != m.Migration.UID || *s.Domain.Migration == m.Progress {
		return
	}
	if m.ProgressFrom.IsZero() {
		m.ProgressFrom = now
	}
	if now.Sub(m.ProgressAt) >= now.Sub(m.ProgressFrom)/progressShare {
		m.Progress, m.ProgressAt = *s.Domain.Migration, now
	}
}

// showProgress is a condition as long as the guest is copied.
func (s *State) showProgress(now time.Time) {
	var c *contract.Condition
	if m := s.Migration; m != nil && !m.over() && m.Progress != (contract.MigrationProgress{}) {
		c = &contract.Condition{Type: contract.ConditionMigrationProgress, Status: "True", Reason: "Copying",
			Message: m.Progress.Text()}
	}
	s.Conditions = conditions.Show(s.Conditions, contract.ConditionMigrationProgress, c, now)
}
