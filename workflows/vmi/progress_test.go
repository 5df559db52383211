package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// copying returns an instance whose guest is being copied.
func copying(t *testing.T) *State {
	t.Helper()
	s := handedOver(t)
	s.observeReservation(claimOf("x", contract.StageCopying), noon)
	s.refresh(noon)
	written(s)
	return s
}

// reports plays a domain observation with the progress of a migration.
func (s *State) reports(uid string, remaining int64) {
	d := *s.Domain
	d.Sequence++
	d.Migration = &contract.MigrationProgress{UID: uid, Total: 100 << 20, Remaining: remaining}
	s.observeDomain(d)
}

func shownProgress(s *State) string {
	c, _ := conditions.Get(s.Conditions, contract.ConditionMigrationProgress)
	return c.Message
}

// A migration's progress is in the status, and in the answer to its migration.
func TestShowsMigrationProgress(t *testing.T) {
	s := copying(t)
	s.refresh(noon)
	require.Equal(t, entity.ActNone, s.decide(noon).Action)
	require.Empty(t, shownProgress(s))

	s.reports("x", 50<<20)
	s.refresh(noon)
	require.Contains(t, shownProgress(s), "50 % of 100.0 MiB copied")
	require.Equal(t, actAnswerMigration, s.decide(noon).Action)
	to, o, due := s.nextAnswer(s.scope(), noon)
	require.True(t, due)
	require.Equal(t, int64(50<<20), o.Progress.Remaining)
	s.noteAnswer(to, o, true, s.scope(), noon)
	require.Equal(t, entity.ActWrite, s.decide(noon).Action)
	written(s)
	require.Equal(t, entity.ActNone, s.decide(noon).Action)

	s.observeReservation(claimOf("x", contract.StageMoved), noon)
	s.refresh(noon)
	require.Empty(t, shownProgress(s), "it is over")
	_, o, _ = s.nextAnswer(s.scope(), noon)
	require.Zero(t, o.Progress)
}

// TestShowsUnscheduledTarget: the instance shows the scheduler's message until the target's pod has a node.
func TestShowsUnscheduledTarget(t *testing.T) {
	s := movable()
	s.observeReservation(claimOf("x", contract.StageClaim), noon)
	pod := contract.PodObservation{UID: "t", Name: "target", VMIUID: s.Object.UID, Migration: "x", Phase: "Pending",
		ResourceVersion: "900", Finalizers: []string{contract.FinalizerPod}, Unschedulable: &contract.Condition{
			Type: "PodScheduled", Status: "False", Reason: "Unschedulable", Message: "0/2 nodes are available"}}
	s.observePod(pod)
	s.refresh(noon)
	c, ok := conditions.Get(s.Conditions, contract.ConditionMigrationProgress)
	require.True(t, ok)
	require.Equal(t, []string{"False", "Unschedulable", "pod target, for migration m-x, has no node: " +
		"0/2 nodes are available"}, []string{c.Status, c.Reason, c.Message})
	_, own := conditions.Get(s.Conditions, "PodScheduled")
	require.False(t, own, "that is of the pod that the guest is in")

	pod.ResourceVersion, pod.NodeName, pod.Unschedulable = "901", "n2", nil
	s.observePod(pod)
	s.refresh(noon)
	require.Empty(t, shownProgress(s))
}

// Progress of another migration is ignored, and progress without a migration.
func TestIgnoresProgressOfAnotherMigration(t *testing.T) {
	s := copying(t)
	s.reports("other", 50<<20)
	s.refresh(noon)
	require.Empty(t, shownProgress(s))
	s = movable()
	s.reports("x", 50<<20)
	s.refresh(noon)
	require.Empty(t, shownProgress(s))
}

// TestLongCopyIsShownLessOften: a launcher reports every ten seconds, for a day.
func TestLongCopyIsShownLessOften(t *testing.T) {
	s := copying(t)
	const each, day = 10 * time.Second, 24 * time.Hour
	shown, minute := 0, 0
	for at := each; at <= day; at += each {
		before := s.Migration.Progress
		s.reports("x", int64(day-at)/int64(time.Millisecond))
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
