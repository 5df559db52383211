package vmi

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// guestState has what decides whether an operation on the guest is refused.
type guestState struct {
	uid            string // of the VMI object
	observed, gone bool
	phase          Phase
	running        bool // in its pod
	paused, agent  bool
	moving         bool
	migration      string // the name of the one that moves it
}

// guestState returns what decides whether an operation is refused.
func (s *State) guestState() guestState {
	g := guestState{
		uid: s.Object.UID, observed: s.VMI != nil, gone: s.VMI != nil && s.VMI.Gone, phase: s.Phase,
		running: s.Phase == PhaseRunning && s.hasPod(), paused: s.isDomainIn(contract.DomainPaused),
		agent: s.Domain != nil && s.Domain.AgentConnected, moving: s.isMoving(),
	}
	if s.Migration != nil {
		g.migration = s.Migration.Migration.Name
	}
	return g
}

// refusal is one row of the table of refusals.
type refusal struct {
	operation contract.Operation // "": any
	applies   bool
	kind      string // of the application error; it decides the HTTP status of the answer
	message   string
}

// refusals returns the table of refusals, in KubeVirt's words and order. The first row that applies counts.
func (g guestState) refusals(r contract.InstanceRequest) []refusal {
	const anyOperation = contract.OperationNone
	placed := g.phase == PhaseScheduled || g.phase == PhaseRunning
	known := slices.Contains(contract.InstanceOperations(), r.Operation)
	return []refusal{
		{anyOperation, !g.observed, contract.RefusedAway, "The instance has not been observed yet; try again."},
		{anyOperation, g.uid != r.UID, contract.RefusedAway,
			"Another instance of that name has not ended yet; try again."},
		{anyOperation, g.gone, contract.RefusedGone, "it is gone"},
		{anyOperation, !known, contract.RefusedFailed, fmt.Sprintf("%q is not an operation", string(r.Operation))},

		{contract.OperationPause, !g.running, contract.RefusedState, "VM is not running"},
		{contract.OperationPause, r.Probed, contract.RefusedProbed,
			"Pausing VMIs with a non-GuestAgentPing LivenessProbe is not supported"},
		{contract.OperationPause, g.paused, contract.RefusedState, "VMI is already paused"},
		{contract.OperationUnpause, !g.running, contract.RefusedState, "VMI is not running"},
		{contract.OperationUnpause, !g.paused, contract.RefusedState, "VMI is not paused"},
		{contract.OperationFreeze, !g.running, contract.RefusedState, "VM is not running"},
		{contract.OperationUnfreeze, !g.running, contract.RefusedState, "VMI is not running"},
		{contract.OperationSoftReboot, !g.running, contract.RefusedState, "VM is not running"},
		{contract.OperationSoftReboot, g.paused, contract.RefusedState, "VMI is paused"},
		{contract.OperationSoftReboot, !r.ACPI && !g.agent, contract.RefusedState,
			"VMI neither have the agent connected nor the ACPI feature enabled"},
		{contract.OperationReset, !g.running && placed, contract.RefusedPhase, "the guest is not running"},
		{contract.OperationReset, !g.running, contract.RefusedPhase, fmt.Sprintf("Unable to connect to "+
			"VirtualMachineInstance because phase is %s instead of Running or Scheduled", g.phase)},

		{anyOperation, g.moving, contract.RefusedState, "VMI is being migrated by VirtualMachineInstanceMigration " +
			g.migration + ": try again when that has ended"},
	}
}

// check returns why an operation is refused, or nil.
func (g guestState) check(r contract.InstanceRequest) error {
	for _, row := range g.refusals(r) {
		if row.applies && (row.operation == contract.OperationNone || row.operation == r.Operation) {
			return temporal.NewNonRetryableApplicationError(row.message, row.kind, nil)
		}
	}
	return nil
}

// checkAt also refuses a request after its NotAfter: its caller has already been answered that it failed.
func (g guestState) checkAt(r contract.InstanceRequest, now time.Time) error {
	if !r.NotAfter.IsZero() && now.After(r.NotAfter) {
		return temporal.NewNonRetryableApplicationError("The request came too late: its caller no longer waits for it.",
			contract.RefusedAway, nil)
	}
	return g.check(r)
}

// wasDone reports whether the request of that ID was done before: its answer may have been lost, and the request
// repeated in a later run. It returns an error if the outcome is unknown and the operation must not be done twice.
func wasDone(records []contract.OperationRecord, id string) (bool, error) {
	for _, r := range records {
		switch {
		case id == "" || r.ID != id || r.Until.IsZero():
		case r.Outcome == entity.OutcomeDone:
			return true, nil
		case r.OutcomeUnknown && !isRepeatable(r.Operation):
			return true, temporal.NewNonRetryableApplicationError(
				"It was begun before, and its outcome is unknown.", contract.RefusedAway, nil)
		}
	}
	return false, nil
}

// isRepeatable reports whether doing the operation twice has the same effect as once.
func isRepeatable(o contract.Operation) bool {
	return o != contract.OperationReset && o != contract.OperationSoftReboot
}
