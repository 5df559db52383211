package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// ready is the condition of a pod.
func ready(status string) *contract.Condition {
	return &contract.Condition{Type: "Ready", Status: status, Reason: "ReadinessGatesNotReady"}
}

// handedOver is an instance that says that its guest, whose agent answers, is handed off.
func handedOver(t *testing.T) *State {
	t.Helper()
	s := movable()
	s.Pod.Ready, s.PodMarked, s.Domain.AgentConnected = ready("True"), true, true
	s.Domain.Guest = &contract.GuestInfo{OS: contract.GuestOS{Name: "Debian"}}
	s.observeClaim(claimOf("x", contract.StageClaim), noon)
	s.observePod(another("x"))
	s.observeClaim(claimOf("x", contract.StageHandOff), noon)
	s.refresh(noon)
	written(s)
	s.refresh(noon)
	return s
}

// written is what a write of the status leaves.
func written(s *State) {
	st := s.status()
	s.Written = &st
	s.recorded(nil)
	if m := s.Migration; m != nil {
		m.Told, m.Asked = s.answer(), false
	}
}

func condition(s *State, kind string) string {
	c, _ := conditions.Get(s.Conditions, kind)
	return c.Status
}

// TestACopyThatIsThroughAtOnceIsWrittenOnce, and one that takes longer shows.
func TestACopyThatIsThroughAtOnceIsWrittenOnce(t *testing.T) {
	s := handedOver(t)
	s.observeClaim(claimOf("x", contract.StageCopying), noon)
	s.refresh(noon)
	d := s.decide(noon)
	require.Equal(t, entity.ActNone, d.Action, d.Why)
	require.False(t, d.WakeAt.After(noon.Add(copySettle)), "%s", d.WakeAt)
	late := noon.Add(copySettle)
	s.refresh(late)
	require.Equal(t, entity.ActWrite, s.decide(late).Action)

	s.observeClaim(claimOf("x", contract.StageMoved), noon.Add(time.Second))
	s.refresh(noon.Add(time.Second))
	require.Equal(t, entity.ActWrite, s.decide(noon.Add(time.Second)).Action, "where the guest is waits for nothing")
}

// TestANotReadyPodOfAGuestThatArrivesDoesNotShow, unless it stays so, or there is more to it.
func TestANotReadyPodOfAGuestThatArrivesDoesNotShow(t *testing.T) {
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
			s.observeClaim(moved, noon)
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

// TestWhatDoesNotCatchUpShows, and nobody has to say anything for that.
func TestWhatDoesNotCatchUpShows(t *testing.T) {
	s := handedOver(t)
	moved := claimOf("x", contract.StageMoved)
	moved.Domain = &contract.DomainObservation{PodUID: "q", Sequence: 1, State: contract.DomainRunning}
	moved.State.Completed, moved.State.End = true, noon
	s.observeClaim(moved, noon)
	s.refresh(noon)
	s.Pod.Ready, s.PodMarked = ready("False"), true
	s.refresh(noon)
	written(s)
	s.release()
	d := s.decide(noon)
	require.Equal(t, entity.ActNone, d.Action, d.Why)
	require.False(t, d.WakeAt.IsZero() || d.WakeAt.After(noon.Add(settleTime)), "%s", d.WakeAt)
	late := noon.Add(settleTime)
	s.refresh(late)
	require.Equal(t, entity.ActWrite, s.decide(late).Action)
	require.Equal(t, "False", condition(s, "Ready"))
	require.Empty(t, condition(s, "AgentConnected"))
}
