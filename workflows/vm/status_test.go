package vm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestPrintableStatusPrecedence: KubeVirt's order, whole. A row that cannot hold yet names what it waits for.
func TestPrintableStatusPrecedence(t *testing.T) {
	var order []string
	for _, p := range Printables() {
		require.Equal(t, p.Awaits == "", p.When != nil, p.Status)
		order = append(order, p.Status)
	}
	require.Equal(t, []string{
		"Terminating", "Stopping", "Migrating", "Paused", "Running", "ErrorPvcNotFound", "DataVolumeError",
		"ErrorUnschedulable", "Provisioning",
		"WaitingForVolumeBinding", "ErrImagePull", "ImagePullBackOff", "Starting", "CrashLoopBackOff", "Stopped",
		"WaitingForReceiver", "Unknown",
	}, order)
}

func TestPrintableStatus(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	condition := func(kind, status, reason string) func(*State) {
		return func(s *State) {
			s.VMI.Conditions = append(s.VMI.Conditions, contract.Condition{Type: kind, Status: status, Reason: reason})
		}
	}
	phase := func(p string) func(*State) { return func(s *State) { s.VMI.Phase = p } }
	for name, c := range map[string]struct {
		situation runstrategy.Situation
		change    []func(*State)
		want      string
	}{
		"deleted while it runs": {runstrategy.Alive, []func(*State){func(s *State) {
			s.VM.DeletionTimestamp = &now
		}}, "Terminating"},
		"going":        {runstrategy.Deleting, nil, "Stopping"},
		"going, ended": {runstrategy.Deleting, []func(*State){phase("Succeeded")}, "Stopped"},
		"own deletion, not seen yet": {runstrategy.Alive, []func(*State){func(s *State) {
			s.Open = &Transition{Transition: entity.Transition{Operation: contract.OperationStop}}
		}}, "Stopping"},
		"paused": {runstrategy.Alive,
			[]func(*State){condition("Paused", "True", "PausedByUser")}, "Paused"},
		"moving": {runstrategy.Alive, []func(*State){condition("Paused", "True", "PausedByMigrationMonitor"),
			func(s *State) { s.VMI.Migration = &contract.MigrationState{Start: now} }}, "Migrating"},
		"moved": {runstrategy.Alive, []func(*State){func(s *State) {
			s.VMI.Migration = &contract.MigrationState{Start: now, Completed: true}
		}}, "Running"},
		"going, moving": {runstrategy.Deleting, []func(*State){func(s *State) {
			s.VMI.Migration = &contract.MigrationState{Start: now}
		}}, "Stopping"},
		"going, paused": {runstrategy.Deleting,
			[]func(*State){condition("Paused", "True", "PausedByUser")}, "Stopping"},
		"running": {runstrategy.Alive, nil, "Running"},
		"running, and once unschedulable": {runstrategy.Alive,
			[]func(*State){condition("PodScheduled", "False", "Unschedulable")}, "Running"},
		"no such claim": {runstrategy.Alive,
			[]func(*State){phase("Pending"), condition("Synchronized", "False", "FailedPvcNotFound"),
				condition("PodScheduled", "False", "Unschedulable")}, "ErrorPvcNotFound"},
		"no node": {runstrategy.Alive,
			[]func(*State){phase("Scheduling"), condition("PodScheduled", "False", "Unschedulable"),
				condition("Synchronized", "False", "ErrImagePull")}, "ErrorUnschedulable"},
		"no image": {runstrategy.Alive,
			[]func(*State){phase("Scheduling"), condition("Synchronized", "False", "ErrImagePull")}, "ErrImagePull"},
		"no image for a while": {runstrategy.Alive,
			[]func(*State){phase("Scheduling"), condition("Synchronized", "False", "ImagePullBackOff")},
			"ImagePullBackOff"},
		"coming up": {runstrategy.Alive, []func(*State){phase("Scheduled")}, "Starting"},
		"own creation, not seen yet": {runstrategy.Absent, []func(*State){func(s *State) {
			s.Open = &Transition{Transition: entity.Transition{Operation: contract.OperationStart}}
		}}, "Starting"},
		"never ran": {runstrategy.Absent, []func(*State){func(s *State) {
			s.StartFailure = &contract.StartFailure{ConsecutiveFailCount: 2}
		}}, "CrashLoopBackOff"},
		"never ran, still there": {runstrategy.Failed, []func(*State){func(s *State) {
			s.StartFailure = &contract.StartFailure{ConsecutiveFailCount: 2}
		}}, "CrashLoopBackOff"},
		"never ran, being made again": {runstrategy.Absent, []func(*State){func(s *State) {
			s.StartFailure = &contract.StartFailure{ConsecutiveFailCount: 2}
			s.Open = &Transition{Transition: entity.Transition{Operation: contract.OperationStart}}
		}}, "Starting"},
		"ended":           {runstrategy.Succeeded, nil, "Stopped"},
		"nothing":         {runstrategy.Absent, nil, "Stopped"},
		"a strange phase": {runstrategy.Alive, []func(*State){phase("Unknown")}, "Unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			s := state(runstrategy.Always, c.situation, runstrategy.NoRequest)
			for _, f := range c.change {
				f(s)
			}
			require.Equal(t, c.want, s.printableStatus())
		})
	}
}

// TestMirroredConditions: all but the VM's own follow the instance. After the instance is gone they stay while the VM
// crashes, and are removed when it is stopped.
func TestMirroredConditions(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	s := state(runstrategy.Always, runstrategy.Alive, runstrategy.NoRequest)
	s.VMI.Conditions = []contract.Condition{{Type: "Ready", Status: "True"}, {Type: "AgentConnected", Status: "True"}}
	s.Checked = &Check{VMI: "i", Generation: 2,
		RestartRequired: "a non-live-updatable field was changed in the template spec"}
	s.refresh(now)
	require.Equal(t, []string{"Ready=True", "AgentConnected=True", "RestartRequired=True"}, shownConditions(s))
	s.VMI.Conditions = s.VMI.Conditions[:1]
	s.refresh(now)
	require.Equal(t, []string{"Ready=True", "RestartRequired=True"}, shownConditions(s))
	s.VMI.Conditions = []contract.Condition{{Type: "LiveMigratable", Status: "False"}}
	s.refresh(now)
	require.ElementsMatch(t, []string{"RestartRequired=True", "LiveMigratable=False",
		"Ready=False VMIConditionMissing"}, shownConditions(s))
	s.VMI.Gone, s.VMI.EverRan = true, false
	s.StartFailure = &contract.StartFailure{ConsecutiveFailCount: 1, LastFailedVMIUID: s.VMI.UID}
	s.refresh(now)
	require.ElementsMatch(t, []string{"LiveMigratable=False", "Ready=False VMINotExists"}, shownConditions(s),
		"what it was restarted for is over")
	s.StartFailure, s.VM.RunStrategy = nil, string(runstrategy.Halted)
	s.refresh(now)
	require.Equal(t, []string{"Ready=False VMINotExists"}, shownConditions(s),
		"a stopped VM has no instance to migrate")
}

// TestObservedGeneration: it is the instance's while that lives, and the VM's otherwise. A client that waits for a
// condition ignores those of an older generation, and a guest may take its whole grace period to end.
func TestObservedGeneration(t *testing.T) {
	s := state(runstrategy.Halted, runstrategy.Alive, runstrategy.NoRequest)
	s.VM.Generation = 2
	require.EqualValues(t, 1, s.status().ObservedGeneration, "the instance is of the generation before")
	for _, situation := range []runstrategy.Situation{runstrategy.Deleting, runstrategy.Succeeded, runstrategy.Failed} {
		s := state(runstrategy.Halted, situation, runstrategy.NoRequest)
		s.VM.Generation = 2
		require.EqualValues(t, 2, s.status().ObservedGeneration, situation)
		s.VMI.Conditions = []contract.Condition{{Type: "Ready", Status: "True"}}
		require.EqualValues(t, 1, s.status().ObservedGeneration, "%s, and still shown as ready", situation)
		s.Logic = entity.LogicWithout(contract.ChangeAfterFirst)
		require.EqualValues(t, 1, s.status().ObservedGeneration, "%s, in a run of v0.1.0", situation)
	}
	s.VMI.Gone = true
	require.EqualValues(t, 2, s.status().ObservedGeneration)
	s.VM.Generation = 3
	require.True(t, s.needsWrite())
	require.EqualValues(t, 3, s.status().ObservedGeneration, "an edit while it is stopped")

	s.Logic = entity.LogicWithout(contract.ChangeAfterFirst)
	s.Written = &contract.VMStatus{ObservedGeneration: 1}
	require.EqualValues(t, 1, s.status().ObservedGeneration, "a run of v0.1.0 writes nothing more")
	n := s.successor()
	require.False(t, n.HasChange(contract.ChangeAfterFirst), "within a run its logic stays")
}

// TestNotReadyWhileForeignFinalizersRemain: after its instance is gone, one write sets the VM to not ready.
func TestNotReadyWhileForeignFinalizersRemain(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	s := state(runstrategy.Always, runstrategy.Deleting, runstrategy.NoRequest)
	s.VMI.Conditions = []contract.Condition{{Type: "Ready", Status: "True"}}
	s.VM.DeletionTimestamp, s.Terminating = &now, true
	written := s.status()
	s.Written, s.VMI.Gone, s.Last = &written, true, &entity.Outcome{}
	s.refresh(now)
	require.Equal(t, actRemoveFinalizer, s.decide(now).Action, "its own goes first, and with it mostly the VM")
	s.VM.Finalizers = nil
	require.Equal(t, entity.ActNone, s.decide(now).Action)
	s.VM.Finalizers = []string{"example.org/backup"}
	require.Equal(t, entity.ActWrite, s.decide(now).Action)
	st := s.status()
	require.Equal(t, []any{false, false, "Terminating"}, []any{st.Created, st.Ready, st.PrintableStatus})
	require.Equal(t, []string{"Ready=False VMINotExists"}, shownConditions(s))
	s.Written = &st
	require.Equal(t, entity.ActNone, s.decide(now).Action)
}

func shownConditions(s *State) []string {
	var out []string
	for _, c := range s.Conditions {
		line := c.Type + "=" + c.Status
		if c.Reason != "" {
			line += " " + c.Reason
		}
		out = append(out, line)
	}
	return out
}

// A start is shown as soon as it is open, where no observation of the instance arrives before its guest runs. Otherwise
// one write shows both.
func TestShowsStart(t *testing.T) {
	for strategy, shows := range map[runstrategy.Strategy]bool{
		runstrategy.Always: true, runstrategy.RerunOnFailure: false, runstrategy.Once: false,
	} {
		for _, request := range []runstrategy.Request{runstrategy.NoRequest, runstrategy.StartRequest} {
			s := state(strategy, runstrategy.Absent, request)
			st := s.status()
			s.Written = &st
			s.Open = &Transition{}
			s.Open.Operation = contract.OperationStart
			require.Equal(t, "Starting", s.printableStatus())
			require.Equal(t, shows && request == runstrategy.NoRequest, s.needsWrite(), "%s, request %s", strategy,
				request)
			s.VMI = &contract.VMIObservation{UID: "j", OwnerUID: "vm"}
			require.True(t, s.needsWrite(), "there is word of the instance")
		}
	}
}

// TestRepeatsFailedWrite: its outcome is unknown, so the status is written even if it is as it was last written for
// certain.
func TestRepeatsFailedWrite(t *testing.T) {
	s := &State{VM: &contract.VMObservation{UID: "vm", ResourceVersion: "1", RunStrategy: "Halted"}}
	st := s.status()
	s.Written = &st
	require.False(t, s.needsWrite())
	s.OutcomeUnknown = true
	require.True(t, s.needsWrite())
}
