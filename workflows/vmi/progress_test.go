package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// copying is an instance whose guest is being copied.
func copying(t *testing.T) *State {
	t.Helper()
	s := handedOver(t)
	s.observeClaim(claimOf("x", contract.StageCopying), noon)
	s.refresh(noon)
	written(s)
	return s
}

// says is a domain's observation of how far it is.
func (s *State) says(uid string, remaining int64) {
	d := *s.Domain
	d.Sequence++
	d.Migration = &contract.MigrationProgress{UID: uid, Total: 100 << 20, Remaining: remaining}
	s.observeDomain(d)
}

func shownProgress(s *State) string {
	c, _ := conditions.Get(s.Conditions, contract.ConditionMigrationProgress)
	return c.Message
}

// TestProgressShows in the status, and its migration hears of it.
func TestProgressShows(t *testing.T) {
	s := copying(t)
	s.refresh(noon)
	require.Equal(t, entity.ActNone, s.decide(noon).Action)
	require.Empty(t, shownProgress(s))

	s.says("x", 50<<20)
	s.refresh(noon)
	require.Contains(t, shownProgress(s), "50 % of 100.0 MiB copied")
	require.Equal(t, actAnswerMigration, s.decide(noon).Action)
	to, o, due := s.nextAnswer(noon)
	require.True(t, due)
	require.Equal(t, int64(50<<20), o.Progress.Remaining)
	s.answered(to, o, true, noon)
	require.Equal(t, entity.ActWrite, s.decide(noon).Action)
	written(s)
	require.Equal(t, entity.ActNone, s.decide(noon).Action)

	s.observeClaim(claimOf("x", contract.StageMoved), noon)
	s.refresh(noon)
	require.Empty(t, shownProgress(s), "it is over")
	_, o, _ = s.nextAnswer(noon)
	require.Zero(t, o.Progress)
}

// TestProgressOfAnotherMigrationIsNone, nor is one without a migration.
func TestProgressOfAnotherMigrationIsNone(t *testing.T) {
	s := copying(t)
	s.says("other", 50<<20)
	s.refresh(noon)
	require.Empty(t, shownProgress(s))
	s = movable()
	s.says("x", 50<<20)
	s.refresh(noon)
	require.Empty(t, shownProgress(s))
}

// TestALongCopyShowsLessOften: a launcher says it each ten seconds, for a day.
func TestALongCopyShowsLessOften(t *testing.T) {
	s := copying(t)
	const each, day = 10 * time.Second, 24 * time.Hour
	shown, minute := 0, 0
	for at := each; at <= day; at += each {
		before := s.Migration.Progress
		s.says("x", int64(day-at)/int64(time.Millisecond))
		s.refresh(noon.Add(at))
		if s.Migration.Progress != before {
			shown++
		}
		if at == time.Minute {
			minute = shown
		}
	}
	require.Equal(t, 6, minute)
	require.InDelta(t, 75, shown, 15)
}
