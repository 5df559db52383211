package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// The durations of the phases are in the workflow's current details.
func TestDetailsShowPhaseDurations(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	times := []contract.PhaseTime{{Phase: "Pending", Time: at}, {Phase: "Scheduling", Time: at.Add(time.Second)},
		{Phase: "Scheduled", Time: at.Add(76 * time.Second)}, {Phase: "Running", Time: at.Add(78 * time.Second)}}
	require.Equal(t, "It was Pending for 1s, Scheduling for 1m15s, Scheduled for 2s, and has been Running since "+
		"2026-01-02T03:05:23Z.", phaseDurations(times))
	require.Empty(t, phaseDurations(times[:1]))
	e := instance{state: State{PhaseTimes: times, Phase: PhaseRunning}}
	require.Contains(t, e.Details(entity.Plan{}), phaseDurations(times))
}
