package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// ready returns the Ready condition of a pod.
func ready(status string) *contract.Condition {
	return &contract.Condition{Type: "Ready", Status: status, Reason: "ReadinessGatesNotReady"}
}

// handedOver returns an instance whose guest, with a connected agent, is handed off, as its status shows.
func handedOver(t *testing.T) *State {
	t.Helper()
	s := movable()
	s.Pod.Ready, s.PodMarked, s.Domain.AgentConnected = ready("True"), true, true
	s.Domain.Guest = &contract.GuestInfo{OS: contract.GuestOS{Name: "Debian"}}
	s.observeReservation(claimOf("x", contract.StageClaim), noon)
	s.observePod(another("x"))
	s.observeReservation(claimOf("x", contract.StageHandOff), noon)
	s.refresh(noon)
	written(s)
	s.refresh(noon)
	return s
}

// written does what a write of the status does to the state.
func written(s *State) {
	st := s.status()
	s.Written = &st
	s.markRecorded(nil)
	if m := s.Migration; m != nil {
		m.LastAnswer, m.AnswerDue = s.migrationAnswer(s.scope()), false
	}
}

func condition(s *State, kind string) string {
	c, _ := conditions.Get(s.Conditions, kind)
	return c.Status
}

// TestWritesShortCopyOnce checks that a copy that takes longer is shown.
func TestWritesShortCopyOnce(t *testing.T) {
	s := handedOver(t)
	s.observeReservation(claimOf("x", contract.StageCopying), noon)
	s.refresh(noon)
	d := s.decide(noon)
	require.Equal(t, entity.ActNone, d.Action, d.Why)
	require.False(t, d.WakeAt.After(noon.Add(copySettle)), "%s", d.WakeAt)
	late := noon.Add(copySettle)
	s.refresh(late)
	require.Equal(t, entity.ActWrite, s.decide(late).Action)

	s.observeReservation(claimOf("x", contract.StageMoved), noon.Add(time.Second))
	s.refresh(noon.Add(time.Second))
	require.Equal(t, entity.ActWrite, s.decide(noon.Add(time.Second)).Action, "where the guest is waits for nothing")
}

// The instance stays ready while its guest arrives, unless the pod stays not ready, or there is another problem.
func TestKeepsReadyWhileGuestArrives(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*State)
		shows  bool
	}{
		"it is about to be": {},
		"it is ready, at the end": {change: func(s *State) {
			s.Pod.Ready, s.Domain.AgentConnected, s.Others = ready("True"), true, nil
			s.Domain.Guest = s.Written.Guest
		}},
		"the guest is paused": {change: func(s *State) { s.Domain.State = contract.DomainPaused }, shows: true},
		"the pod is deleted":  {change: func(s *State) { s.Pod.DeletionTimestamp = &noon }, shows: true},
		"the instance is":     {change: func(s *State) { s.VMI.DeletionTimestamp = &noon }, shows: true},
		"it was not ready":    {change: func(s *State) { s.Conditions = nil }, shows: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := handedOver(t)
			moved := claimOf("x", contract.StageMoved)
			moved.Domain = &contract.DomainObservation{PodUID: "q", Sequence: 1, State: contract.DomainRunning}
			moved.State.Completed, moved.State.End = true, noon
			s.observeReservation(moved, noon)
			s.refresh(noon)
			s.Pod.Ready = ready("False")
			require.Equal(t, "q", s.Pod.UID)
			require.Equal(t, entity.ActWrite, s.decide(noon).Action)
			require.Equal(t, "n2", s.status().NodeName)
			if c.change != nil {
				c.change(s)
			}
			s.refresh(noon.Add(time.Second))
			require.Equal(t, c.shows, condition(s, "Ready") != "True")
			if c.shows {
				return
			}
			require.Equal(t, "True", condition(s, "AgentConnected"))
			require.NotNil(t, s.status().Guest)
		})
	}
}

// After the settle time, a pod that is not ready is shown without a further observation.
func TestShowsNotReadyPodAfterSettleTime(t *testing.T) {
	s := handedOver(t)
	moved := claimOf("x", contract.StageMoved)
	moved.Domain = &contract.DomainObservation{PodUID: "q", Sequence: 1, State: contract.DomainRunning}
	moved.State.Completed, moved.State.End = true, noon
	s.observeReservation(moved, noon)
	s.refresh(noon)
	s.Pod.Ready, s.PodMarked = ready("False"), true
	s.refresh(noon)
	written(s)
	s.releaseMigration()
	d := s.decide(noon)
	require.Equal(t, entity.ActNone, d.Action, d.Why)
	require.False(t, d.WakeAt.IsZero() || d.WakeAt.After(noon.Add(settleTime)), "%s", d.WakeAt)
	late := noon.Add(settleTime)
	s.refresh(late)
	require.Equal(t, entity.ActWrite, s.decide(late).Action)
	require.Equal(t, "False", condition(s, "Ready"))
	require.Empty(t, condition(s, "AgentConnected"))
}
