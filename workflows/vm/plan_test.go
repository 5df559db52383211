package vm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/entity"
)

var (
	strategies = []runstrategy.Strategy{runstrategy.Always, runstrategy.RerunOnFailure, runstrategy.Manual,
		runstrategy.Halted, runstrategy.Once}
	situations = []runstrategy.Situation{runstrategy.Absent, runstrategy.Alive, runstrategy.Deleting,
		runstrategy.Succeeded, runstrategy.Failed}
	requests = []runstrategy.Request{runstrategy.NoRequest, runstrategy.StartRequest, runstrategy.StopRequest,
		runstrategy.RestartRequest}
)

// state returns the state of a VM with an instance in that situation, and with that request.
func state(strategy runstrategy.Strategy, situation runstrategy.Situation, request runstrategy.Request) *State {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &State{Object: contract.Object{Namespace: "default", Name: "web", UID: "vm"}}
	s.VM = &contract.VMObservation{UID: "vm", Generation: 1, RunStrategy: string(strategy),
		Finalizers: []string{contract.FinalizerVM}}
	switch request {
	case runstrategy.NoRequest:
	case runstrategy.StartRequest:
		s.VM.StateChangeRequests = []contract.StateChangeRequest{{Action: "Start"}}
	case runstrategy.StopRequest:
		s.VM.StateChangeRequests = []contract.StateChangeRequest{{Action: "Stop", UID: "i"}}
	case runstrategy.RestartRequest:
		s.VM.StateChangeRequests = []contract.StateChangeRequest{{Action: "Stop", UID: "i"}, {Action: "Start"}}
	}
	s.VMI = &contract.VMIObservation{UID: "i", OwnerUID: "vm", Phase: "Running", VMGeneration: 1, EverRan: true}
	switch situation {
	case runstrategy.Absent:
		s.VMI.Gone = true
	case runstrategy.Alive:
	case runstrategy.Deleting:
		s.VMI.DeletionTimestamp = &now
	case runstrategy.Succeeded, runstrategy.Failed:
		s.VMI.Phase = map[runstrategy.Situation]string{runstrategy.Succeeded: "Succeeded",
			runstrategy.Failed: "Failed"}[situation]
	}
	return s
}

// TestEveryDecision: the planner decides in every cell of the table, for a new strategy and a known one. Where it has
// nothing to do, it names what it waits for. A repeated call returns the same decision.
func TestEveryDecision(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	cells := 0
	for _, strategy := range append(
		[]runstrategy.Strategy{runstrategy.WaitAsReceiver, runstrategy.Contradictory, "Sometimes"}, strategies...) {
		for _, situation := range situations {
			for _, request := range requests {
				for _, last := range []string{"", string(strategy), string(runstrategy.Halted)} {
					s := state(strategy, situation, request)
					s.RunStrategy = last
					s.refresh(now)
					d := s.decide(now)
					require.True(t, d.Action != entity.ActNone || d.Waiting.Kind != 0,
						"%s × %s × %s: neither a step nor a wait",
						strategy, situation, request)
					require.Equal(t, d, s.decide(now))
					st := s.status()
					s.Written = &st
					s.VM.StateChangeRequests = st.StateChangeRequests
					if d = s.decide(now); d.Action == entity.ActWrite {
						t.Errorf("%s × %s × %s: writes what it has just written", strategy, situation, request)
					}
					cells++
				}
			}
		}
	}
	require.Equal(t, 8*5*4*3, cells)
}

// TestBackOff: 10 s × count², up to half as much again, at most 300 s (KubeVirt's figures), and the same for the same
// instance.
func TestBackOff(t *testing.T) {
	for _, tc := range []struct {
		count    int
		min, max time.Duration
	}{{1, 10 * time.Second, 15 * time.Second}, {2, 40 * time.Second, 60 * time.Second}, {3, 90 * time.Second,
		135 * time.Second}, {6, 300 * time.Second, 300 * time.Second}, {1000, 300 * time.Second, 300 * time.Second}} {
		d := backOff(tc.count, "some-uid")
		require.GreaterOrEqual(t, d, tc.min, "count %d", tc.count)
		require.LessOrEqual(t, d, tc.max, "count %d", tc.count)
		require.Equal(t, d, backOff(tc.count, "some-uid"))
	}
}

// TestBackOffDelaysSameStrategiesAsKubeVirt: instances that never ran are counted under Always, RerunOnFailure and
// Once, and delay the first two.
func TestBackOffDelaysSameStrategiesAsKubeVirt(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	for strategy, delays := range map[runstrategy.Strategy]bool{runstrategy.Always: true,
		runstrategy.RerunOnFailure: true, runstrategy.Once: false, runstrategy.Manual: false} {
		s := state(strategy, runstrategy.Absent, runstrategy.StartRequest)
		s.VMI.EverRan = false
		s.StartFailure = &contract.StartFailure{ConsecutiveFailCount: 1, LastFailedVMIUID: "i",
			RetryAfter: new(now.Add(time.Minute))}
		s.refresh(now)
		st := s.status()
		s.Written = &st
		d := s.decide(now)
		require.Equal(t, runstrategy.BacksOff(strategy), s.StartFailure != nil, strategy)
		if delays {
			require.Equal(t, now.Add(time.Minute), d.WakeAt, strategy)
			require.Equal(t, "CrashLoopBackOff", s.printableStatus())
		} else {
			require.Equal(t, contract.OperationStart, d.Operation, strategy)
		}
	}
}
