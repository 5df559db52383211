package lifecycle

import "github.com/virtflow/virtflow/contract"

// Machine is the state machine that follows the table. It is not safe for concurrent use.
type Machine struct {
	table  map[State]map[Input]Step
	state  State
	ran    bool
	reason string
}

// New starts at Idle.
func New() *Machine { return &Machine{table: Table(), state: Idle} }

// Apply takes an input and returns the action for it.
func (m *Machine) Apply(in Input) Action {
	step := m.table[m.state][in]
	m.state = step.Next
	switch in {
	case StartDone:
		m.ran = true
	case Granted:
		m.ran = m.ran || step.Do == Resume
	case GuestOff, GuestKilled, GuestCrashed, GuestGone:
		// A guest that was only received has not run here.
		m.ran = m.ran || step.Reason != "" && step.Reason != contract.ReasonNotReceived
	default:
	}
	if step.Do == End {
		m.reason = step.Reason
	}
	return step.Do
}

// State returns the current state.
func (m *Machine) State() State { return m.state }

// Ran reports whether a domain has been running.
func (m *Machine) Ran() bool { return m.ran }

// Reason returns the reason of the end; "" before it has Ended.
func (m *Machine) Reason() string { return m.reason }

// ExitCode returns the launcher's exit code for a reason: 0 makes the pod Succeeded, as KubeVirt's is when the guest
// powered off or was ended, and after a migration there is nothing to restart.
func ExitCode(reason string) int {
	switch reason {
	case contract.ReasonShutdown, contract.ReasonDestroyed, contract.ReasonNeverRan, contract.ReasonMigrated,
		contract.ReasonNotReceived:
		return 0
	default:
		return 1
	}
}
