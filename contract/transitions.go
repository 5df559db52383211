package contract

import "time"

// ProgressState is the state of the instance that a VM's transition waits for.
type ProgressState string

// Progress of a VM's instance.
const (
	ProgressNone    ProgressState = ""
	ProgressRunning ProgressState = "running"
	ProgressEnded   ProgressState = "ended"  // final, but the object is still there
	ProgressAbsent  ProgressState = "absent" // no object
	// ProgressOrphaned means that the VM is deleted and orphans its instance: a start ends without waiting for it.
	ProgressOrphaned ProgressState = "orphaned"
)

// InstanceProgress is signalled by a VM entity to its open transition (SignalProgress).
type InstanceProgress struct {
	State  ProgressState `json:"state,omitempty"`
	VMIUID string        `json:"vmiUID,omitempty"`
	Phase  string        `json:"phase,omitempty"`
	// Obstacle is the reason why its guest did not run, when the instance has ended ("": nothing). It goes with a
	// signal, and is no part of what is compared.
	Obstacle string `json:"obstacle,omitempty"`
}

// TransitionInput starts a transition of a VM.
type TransitionInput struct {
	VM         Object `json:"vm"`
	VMI        Object `json:"vmi,omitzero"` // the instance to stop, for stop and restart
	Generation int64  `json:"generation,omitempty"`
	// Why and Actor are the reason and who requested it.
	Why   string `json:"why"`
	Actor string `json:"actor,omitempty"`
	// ApprovedBy is the user who approved it, as claimed.
	ApprovedBy string `json:"approvedBy,omitempty"`
	// Paused starts the guest paused.
	Paused bool `json:"paused,omitempty"`
	// Revision is the ControllerRevision of the instance before ("": not known).
	Revision string `json:"revision,omitempty"`
	// Deadline ends the transition, whatever it waits for.
	Deadline time.Time `json:"deadline"`
}

// TransitionResult is the result of a transition.
type TransitionResult struct {
	// Summary is one plain sentence.
	Summary string `json:"summary"`
	VMIUID  string `json:"vmiUID,omitempty"`
	// Refused is why nothing was done ("": it was): the current state, in VM and VMI, does not call for it.
	Refused string          `json:"refused,omitempty"`
	VM      *VMObservation  `json:"vm,omitempty"`
	VMI     *VMIObservation `json:"vmi,omitempty"`
}

// ErrorDeadline is the type of the error of a transition whose deadline passed.
const ErrorDeadline = "DeadlineExceeded"

// ErrorEnded is the type of the error of a start whose instance ended without running.
const ErrorEnded = "InstanceEnded"
