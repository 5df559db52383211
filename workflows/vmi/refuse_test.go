package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestRefuseOperation: every operation in every phase has KubeVirt's answer.
func TestRefuseOperation(t *testing.T) {
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
					text = "the guest is not running"
				}
				checkRefusal(t, s, o, contract.RefusedPhase, text)
				continue
			}
			checkRefusal(t, s, o, contract.RefusedState, notRunning[o])
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
			message: "Another instance of that name has not ended yet; try again."},
		"something else than that": {request: contract.InstanceRequest{Operation: "explode"},
			kind: contract.RefusedFailed, message: `"explode" is not an operation`},
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
			checkError(t, s.guestState().check(c.request), c.kind, c.message)
		})
	}
	checkError(t, guestState{}.check(contract.InstanceRequest{Operation: contract.OperationPause}),
		contract.RefusedAway,
		"The instance has not been observed yet; try again.")
}

// A request that was done is known in a later run, too. A failed request may be repeated under the same ID, unless its
// outcome is unknown and the operation must not be done twice.
func TestWasDone(t *testing.T) {
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
		done, err := wasDone(s.Records, id)
		require.Equal(t, want, done, id)
		if id == "reset/3" {
			checkError(t, err, contract.RefusedAway, "It was begun before, and its outcome is unknown.")
		} else {
			require.NoError(t, err, id)
		}
	}
}

func checkRefusal(t *testing.T, s *State, o contract.Operation, kind, message string) {
	t.Helper()
	checkError(t, s.guestState().check(contract.InstanceRequest{Operation: o, UID: s.Object.UID}), kind, message)
}

func checkError(t *testing.T, err error, kind, message string) {
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

// TestRefusesLateRequest: its caller was answered that it was not done.
func TestRefusesLateRequest(t *testing.T) {
	s := seen(contract.VMIObservation{Phase: "Running"},
		contract.PodObservation{Phase: "Running", NodeName: "n", ComputeRunning: true})
	s.Phase = PhaseRunning
	r := contract.InstanceRequest{Operation: contract.OperationReset, UID: s.Object.UID, NotAfter: noon}
	require.NoError(t, s.guestState().checkAt(r, noon))
	checkError(t, s.guestState().checkAt(r, noon.Add(time.Second)), contract.RefusedAway,
		"The request came too late: its caller no longer waits for it.")
}
