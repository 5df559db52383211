package vmi

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
)

// The disk of a PVC that has grown is resized for a guest that runs and does not migrate.
func TestResizesDiskOfGrownPVC(t *testing.T) {
	claim := func(capacity, requests string) []contract.VolumeClaim {
		return []contract.VolumeClaim{{Volume: "data", Claim: "c", UID: "u", Capacity: capacity, Requests: requests}}
	}
	for name, c := range map[string]struct {
		before, after []contract.VolumeClaim
		change        func(*State)
		want          bool
	}{
		"it has":                   {before: claim("1Gi", "1Gi"), after: claim("2Gi", "2Gi"), want: true},
		"it is to":                 {before: claim("1Gi", "1Gi"), after: claim("1Gi", "2Gi")},
		"it is bound":              {before: claim("", "1Gi"), after: claim("1Gi", "1Gi")},
		"an entity without memory": {after: claim("2Gi", "2Gi"), want: true},
		"another of its name": {before: []contract.VolumeClaim{{Volume: "data", Claim: "c", UID: "v", Capacity: "1Gi"}},
			after: claim("2Gi", "2Gi")},
		"while it is paused": {before: claim("1Gi", "1Gi"), after: claim("2Gi", "2Gi"), want: true,
			change: func(s *State) { s.Domain.State = contract.DomainPaused }},
		"while it moves": {before: claim("1Gi", "1Gi"), after: claim("2Gi", "2Gi"),
			change: func(s *State) { s.observeReservation(claimOf("x", contract.StageClaim), noon) }},
		"while it boots": {before: claim("1Gi", "1Gi"), after: claim("2Gi", "2Gi"),
			change: func(s *State) { s.Phase = PhaseScheduled }},
		"while it goes": {before: claim("1Gi", "1Gi"), after: claim("2Gi", "2Gi"),
			change: func(s *State) { s.VMI.DeletionTimestamp = &noon }},
	} {
		t.Run(name, func(t *testing.T) {
			s := movable()
			s.PVCs = c.before
			s.observePVCs(contract.VMIObservation{UID: s.Object.UID, Phase: "Running", ClaimsVersion: "9",
				Claims: c.after}, &s.VMIObject, false)
			if c.change != nil {
				c.change(s)
			}
			d, ok := s.decideGrown()
			require.Equal(t, c.want, ok)
			if ok {
				require.Equal(t, actResize, d.Action)
			}
		})
	}
}

// A refused resize is shown until the guest sees the new size, or runs in another launcher.
func TestShowsRefusedResize(t *testing.T) {
	refused := temporal.NewNonRetryableApplicationError("enlarging the disk data: no", contract.RefusedFailed, nil)
	shown := func(s *State) contract.Condition {
		s.refresh(noon)
		c, _ := conditions.Get(s.Conditions, "Synchronized")
		return c
	}
	s := movable()
	require.NoError(t, s.noteResize("p", s.Migration != nil, refused))
	require.False(t, s.Grown, "it is not asked again")
	c := shown(s)
	require.Equal(t, "False", c.Status)
	require.Equal(t, "Synchronizing with the Domain failed.", c.Reason)
	require.Contains(t, c.Message, "enlarging the disk data: no")
	s.Pod.UID = "next"
	require.Empty(t, shown(s).Type, "its guest was started with what there is")
	s.Pod.UID = "p"
	require.NotEmpty(t, shown(s).Type)
	require.NoError(t, s.noteResize("p", s.Migration != nil, nil))
	require.Empty(t, shown(s).Type, "it sees it")

	s.observeReservation(claimOf("x", contract.StageClaim), noon)
	require.Error(t, s.noteResize("p", s.Migration != nil, refused))
	require.True(t, s.Grown, "it was about to move: it is asked again")
}

// A guest's problem is shown while it runs, and not as the reason of the guest's end.
func TestShowsGuestProblemWhileRunning(t *testing.T) {
	s := movable()
	s.Domain.Problem = "the file system data cannot be used"
	s.refresh(noon)
	c, _ := conditions.Get(s.Conditions, "Synchronized")
	require.Equal(t, "False", c.Status)
	require.Contains(t, c.Message, "data cannot be used")
	s.Domain.Problem = ""
	s.refresh(noon)
	_, shown := conditions.Get(s.Conditions, "Synchronized")
	require.False(t, shown)
}
