package vm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestPrecedence: KubeVirt's order, whole. A row that cannot hold yet names what it waits for.
func TestPrecedence(t *testing.T) {
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
			require.Equal(t, c.want, s.printable())
		})
	}
}

// TestMirroredConditions: all but the VM's own follow the instance, and stay as they were while there is none.
func TestMirroredConditions(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	s := state(runstrategy.Always, runstrategy.Alive, runstrategy.NoRequest)
	s.VMI.Conditions = []contract.Condition{{Type: "Ready", Status: "True"}, {Type: "AgentConnected", Status: "True"}}
	s.Checked = &Check{VMI: "i", Generation: 2,
		RestartRequired: "a non-live-updatable field was changed in the template spec"}
	s.refresh(now)
	require.Equal(t, []string{"Ready=True", "AgentConnected=True", "RestartRequired=True"}, said(s))
	s.VMI.Conditions = s.VMI.Conditions[:1]
	s.refresh(now)
	require.Equal(t, []string{"Ready=True", "RestartRequired=True"}, said(s))
	s.VMI.Conditions = []contract.Condition{{Type: "LiveMigratable", Status: "False"}}
	s.refresh(now)
	require.ElementsMatch(t, []string{"RestartRequired=True", "LiveMigratable=False",
		"Ready=False VMIConditionMissing"}, said(s))
	s.VMI.Gone = true
	s.refresh(now)
	require.ElementsMatch(t, []string{"LiveMigratable=False", "Ready=False VMINotExists"}, said(s),
		"what it was restarted for is over")
}

func said(s *State) []string {
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

// TestAStartShows as soon as it is open, where nobody tells of the instance before its guest runs. Where somebody does,
// one write tells of both.
func TestAStartShows(t *testing.T) {
	for strategy, shows := range map[runstrategy.Strategy]bool{
		runstrategy.Always: true, runstrategy.RerunOnFailure: false, runstrategy.Once: false,
	} {
		for _, request := range []runstrategy.Request{runstrategy.NoRequest, runstrategy.StartRequest} {
			s := state(strategy, runstrategy.Absent, request)
			st := s.status()
			s.Written = &st
			s.Open = &Transition{}
			s.Open.Operation = contract.OperationStart
			require.Equal(t, "Starting", s.printable())
			require.Equal(t, shows && request == runstrategy.NoRequest, s.differs(), "%s, request %s", strategy,
				request)
			s.VMI = &contract.VMIObservation{UID: "j", OwnerUID: "vm"}
			require.True(t, s.differs(), "there is word of the instance")
		}
	}
}

// TestAFailedWriteIsRepeated: it may have been done all the same, so that the status is written though it says what was
// last known to be written.
func TestAFailedWriteIsRepeated(t *testing.T) {
	s := &State{VM: &contract.VMObservation{UID: "vm", ResourceVersion: "1", RunStrategy: "Halted"}}
	st := s.status()
	s.Written = &st
	require.False(t, s.differs())
	s.OutcomeUnknown = true
	require.True(t, s.differs())
}
