package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestStatusGate: each cause that keeps the status from being written, and which counts.
func TestStatusGate(t *testing.T) {
	settle, copied, arrived, pods := noon.Add(4*time.Second), noon.Add(3*time.Second), noon.Add(2*time.Second),
		noon.Add(time.Second)
	for name, c := range map[string]struct {
		change func(*gateScope)
		want   time.Time // zero: it is written
	}{
		"nothing changes":   {},
		"a pod that starts": {want: settle, change: func(in *gateScope) { in.phase = PhaseScheduling }},
		"a pod without a node": {change: func(in *gateScope) {
			in.phase, in.Pod.Unschedulable = PhaseScheduling, &contract.Condition{}
		}},
		"a pod without its images": {change: func(in *gateScope) {
			in.phase, in.Pod.WaitingReason = PhaseScheduling, "ImagePullBackOff"
		}},
		"a domain that starts":    {want: settle, change: func(in *gateScope) { in.phase = PhaseScheduled }},
		"a pod that is not ready": {want: settle, change: func(in *gateScope) { in.Pod.Ready = nil }},
		"a step that failed":      {change: func(in *gateScope) { in.Pod.Ready, in.failed = nil, true }},
		"an end":                  {change: func(in *gateScope) { in.phase = PhaseFailed }},
		"a deletion":              {want: settle, change: func(in *gateScope) { in.deleting = true }},
		"a deletion, and its pod is gone": {change: func(in *gateScope) {
			in.deleting, in.Pod.Gone = true, true
		}},
		"a deletion, and its guest has ended": {change: func(in *gateScope) {
			in.deleting, in.unshownEnd = true, true
		}},
		"a copy that begins": {want: copied, change: func(in *gateScope) {
			in.Migration = &Reservation{Stage: contract.StageCopying, Written: contract.StageHandOff, CopyingBy: copied}
		}},
		"a copy that is shown": {change: func(in *gateScope) {
			in.Migration = &Reservation{Stage: contract.StageCopying, Written: contract.StageCopying, CopyingBy: copied}
		}},
		"a move that has ended": {change: func(in *gateScope) {
			in.Migration = &Reservation{Stage: contract.StageMoved, Written: contract.StageCopying, CopyingBy: copied}
			in.Pod.Ready, in.Arriving = nil, true
		}},
		"a guest that arrives": {want: arrived, change: func(in *gateScope) { in.Arriving = true }},
		"a guest that arrives in a pod that is not ready": {want: settle, change: func(in *gateScope) {
			in.Pod.Ready, in.Arriving = nil, true
		}},
		"a guest that arrives, with a problem": {change: func(in *gateScope) { in.Arriving, in.urgent = true, true }},
	} {
		t.Run(name, func(t *testing.T) {
			in := gateScope{Launchers: &Launchers{Launcher: Launcher{Pod: &contract.PodObservation{
				Ready: ready("True")}}}, Migrations: &Migrations{}, phase: PhaseRunning, arrivalBy: arrived}
			if c.change != nil {
				c.change(&in)
			}
			g := StatusGate{SettleBy: settle}
			require.Equal(t, c.want, g.gatedUntil(in, noon))
			require.Zero(t, g.gatedUntil(in, settle), "each cause ends")
			g.PodsBy = pods
			require.Equal(t, c.want.IsZero(), g.gatedUntil(in, noon).Equal(pods),
				"that only the pods differ counts last")
		})
	}
}

// TestSettleTimes: when a status begins to settle.
func TestSettleTimes(t *testing.T) {
	var g StatusGate
	g.settlePhase(PhasePending, false, noon)
	require.Zero(t, g.SettleBy)
	g.settlePhase(PhaseScheduling, false, noon)
	require.Equal(t, noon.Add(settleTime), g.SettleBy)
	g.settlePhase(PhaseRunning, false, noon.Add(time.Second))
	require.Equal(t, noon.Add(settleTime), g.SettleBy, "a boot settles once")
	g.settlePhase(PhaseFailed, true, noon.Add(time.Second))
	require.Equal(t, noon.Add(settleTime), g.SettleBy, "a deletion has its own time")
	g.settlePhase(PhaseFailed, false, noon.Add(time.Second))
	require.Equal(t, noon.Add(time.Second+settleTime), g.SettleBy)

	g.settlePods(true, noon)
	g.settlePods(true, noon.Add(time.Second))
	require.Equal(t, noon.Add(settleTime), g.PodsBy)
	g.settlePods(false, noon.Add(time.Second))
	require.Zero(t, g.PodsBy)
}

// TestWriteDelay: a delay is prolonged by further operations, for a second at most.
func TestWriteDelay(t *testing.T) {
	var w WriteDelay
	w.delayWrites(noon)
	require.Equal(t, noon.Add(writeDelay), w.WritesDelayedUntil)
	for _, a := range []action{entity.ActWrite, actMarkPod} {
		require.Equal(t, noon.Add(writeDelay), w.postpone(decision{Action: a}, noon).WakeAt)
		require.Equal(t, a, w.postpone(decision{Action: a}, noon.Add(writeDelay)).Action)
	}
	require.Equal(t, actDeletePod, w.postpone(decision{Action: actDeletePod}, noon).Action)
	at := noon
	for ; at.Before(noon.Add(2 * maxWriteDelay)); at = at.Add(writeDelay / 2) {
		if at.After(w.WritesDelayedUntil) {
			break
		}
		w.delayWrites(at)
	}
	require.Equal(t, noon.Add(maxWriteDelay), w.WritesDelayedUntil)
}
