package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestWhatStandsAgainstAnOperation: every operation in every phase has KubeVirt's answer.
func TestWhatStandsAgainstAnOperation(t *testing.T) {
	notRunning := map[contract.Operation]string{
		contract.OperationPause: "VM is not running", contract.OperationUnpause: "VMI is not running",
		contract.OperationFreeze:   "VM is not running",
		contract.OperationUnfreeze: "VMI is not running", contract.OperationSoftReboot: "VM is not running",
	}
	for _, phase := range []Phase{PhaseUnset, PhasePending, PhaseScheduling, PhaseScheduled, PhaseSucceeded,
		PhaseFailed} {
		for _, o := range contract.InstanceOperations() {
			s := seen(contract.VMIObservation{}, contract.PodObservation{Phase: "Running", NodeName: "n"})
			s.Phase = phase
			if o == contract.OperationReset {
				text := "Unable to connect to VirtualMachineInstance because phase is " + string(phase) +
					" instead of Running or Scheduled"
				if phase == PhaseScheduled {
					text = "the guest does not run yet, or no longer"
				}
				want(t, s, o, contract.RefusedPhase, text)
				continue
			}
			want(t, s, o, contract.RefusedState, notRunning[o])
		}
	}
	for name, c := range map[string]struct {
		domain  contract.DomainObservation
		request contract.InstanceRequest
		kind    string
		message string
	}{
		"pause": {request: contract.InstanceRequest{Operation: contract.OperationPause}},
		"pause probed": {
			request: contract.InstanceRequest{Operation: contract.OperationPause, Probed: true},
			kind:    contract.RefusedProbed,
			message: "Pausing VMIs with a non-GuestAgentPing LivenessProbe is not supported"},
		"pause probed and paused": {domain: contract.DomainObservation{State: contract.DomainPaused},
			request: contract.InstanceRequest{Operation: contract.OperationPause, Probed: true},
			kind:    contract.RefusedProbed,
			message: "Pausing VMIs with a non-GuestAgentPing LivenessProbe is not supported"},
		"pause paused": {domain: contract.DomainObservation{State: contract.DomainPaused},
			request: contract.InstanceRequest{Operation: contract.OperationPause}, kind: contract.RefusedState,
			message: "VMI is already paused"},
		"unpause running": {request: contract.InstanceRequest{Operation: contract.OperationUnpause},
			kind: contract.RefusedState, message: "VMI is not paused"},
		"unpause paused": {domain: contract.DomainObservation{State: contract.DomainPaused},
			request: contract.InstanceRequest{Operation: contract.OperationUnpause}},
		"freeze":   {request: contract.InstanceRequest{Operation: contract.OperationFreeze}},
		"unfreeze": {request: contract.InstanceRequest{Operation: contract.OperationUnfreeze}},
		"reset":    {request: contract.InstanceRequest{Operation: contract.OperationReset}},
		"reset paused": {domain: contract.DomainObservation{State: contract.DomainPaused},
			request: contract.InstanceRequest{Operation: contract.OperationReset}},
		"reboot by ACPI": {
			request: contract.InstanceRequest{Operation: contract.OperationSoftReboot, ACPI: true}},
		"reboot by agent": {domain: contract.DomainObservation{AgentConnected: true},
			request: contract.InstanceRequest{Operation: contract.OperationSoftReboot}},
		"reboot without any": {request: contract.InstanceRequest{Operation: contract.OperationSoftReboot},
			kind: contract.RefusedState, message: "VMI neither have the agent connected nor the ACPI feature enabled"},
		"reboot paused": {domain: contract.DomainObservation{State: contract.DomainPaused},
			request: contract.InstanceRequest{Operation: contract.OperationSoftReboot, ACPI: true},
			kind:    contract.RefusedState, message: "VMI is paused"},
		"another of its name": {
			request: contract.InstanceRequest{Operation: contract.OperationPause, UID: "other"},
			kind:    contract.RefusedAway,
			message: "Another instance of that name is still being dealt with; try again."},
		"something else than that": {request: contract.InstanceRequest{Operation: "explode"},
			kind: contract.RefusedFailed, message: `"explode" is no operation`},
	} {
		t.Run(name, func(t *testing.T) {
			s := seen(contract.VMIObservation{}, contract.PodObservation{Phase: "Running", NodeName: "n"})
			s.Phase = PhaseRunning
			if c.domain.State == "" {
				c.domain.State = contract.DomainRunning
			}
			c.domain.PodUID = s.Pod.UID
			s.Domain = &c.domain
			if c.request.UID == "" {
				c.request.UID = s.Object.UID
			}
			check(t, s.refuse(c.request), c.kind, c.message)
		})
	}
	check(t, (&State{}).refuse(contract.InstanceRequest{Operation: contract.OperationPause}), contract.RefusedAway,
		"The instance has not been seen yet; try again.")
}

// TestARequestThatWasDone is known in a later run, too. One that failed may be tried again under the same ID, unless it
// may have been done and twice is once too many.
func TestARequestThatWasDone(t *testing.T) {
	s := State{}
	s.Record(contract.OperationRecord{Operation: contract.OperationReset, ID: "reset/1", Since: noon, Until: noon,
		Outcome: entity.OutcomeDone})
	s.Record(contract.OperationRecord{Operation: contract.OperationReset, ID: "reset/2", Since: noon, Until: noon,
		Outcome: "no launcher answers"})
	s.Record(contract.OperationRecord{Operation: contract.OperationReset, ID: "reset/3", Since: noon, Until: noon,
		Outcome: "late", OutcomeUnknown: true})
	s.Record(contract.OperationRecord{Operation: contract.OperationPause, ID: "pause/4", Since: noon, Until: noon,
		Outcome: "late", OutcomeUnknown: true})
	for id, want := range map[string]bool{"reset/1": true, "reset/2": false, "reset/3": true, "pause/4": false,
		"": false} {
		done, err := s.did(id)
		require.Equal(t, want, done, id)
		if id == "reset/3" {
			check(t, err, contract.RefusedAway, "It was begun before, and whether it was done is not known.")
		} else {
			require.NoError(t, err, id)
		}
	}
}

func want(t *testing.T, s *State, o contract.Operation, kind, message string) {
	t.Helper()
	check(t, s.refuse(contract.InstanceRequest{Operation: o, UID: s.Object.UID}), kind, message)
}

func check(t *testing.T, err error, kind, message string) {
	t.Helper()
	if kind == "" {
		require.NoError(t, err)
		return
	}
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, kind, app.Type())
	require.Equal(t, message, app.Message())
}

// TestWhatComesTooLateIsNotDone: whoever asked was told that it was not.
func TestWhatComesTooLateIsNotDone(t *testing.T) {
	s := seen(contract.VMIObservation{Phase: "Running"},
		contract.PodObservation{Phase: "Running", NodeName: "n", ComputeRunning: true})
	s.Phase = PhaseRunning
	r := contract.InstanceRequest{Operation: contract.OperationReset, UID: s.Object.UID, NotAfter: noon}
	require.NoError(t, s.refuseAt(r, noon))
	check(t, s.refuseAt(r, noon.Add(time.Second)), contract.RefusedAway,
		"The request comes too late: nobody waits for it any more.")
}
