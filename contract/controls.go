package contract

import (
	"encoding/json"
	"time"
)

// Controls are the commands that a person may send to an entity through Temporal. Each is an Update of this name, which
// is checked and answered, and a signal of the same name for tools without Updates.
const (
	// VM, replica set: open no transition until released. Migration: do not begin to move the guest.
	ControlHold             = "hold"
	ControlRelease          = "release"           // VM, replica set, migration: end the hold
	ControlRetryNow         = "retry-now"         // every entity: do not wait for the next attempt
	ControlCancelTransition = "cancel-transition" // VM, replica set: cancel the open transition, and hold
	ControlApprove          = "approve"           // VM: let the transition that waits for approval begin
	ControlFenceConfirmed   = "fence-confirmed"   // VMI: its node is known to be off
	ControlRepair           = "repair"            // every entity: continue with a corrected state
	ControlCancel           = "cancel"            // migration: the guest stays where it is, if it can
	ControlPreferNode       = "prefer-node"       // migration: prefer that node, before its target has a pod
	ControlForceComplete    = "force-complete"    // migration: pause the guest until the rest is copied
)

// Conditions that a person's control causes or ends: the first of a VM, a replica set or a migration, the second of a
// VM.
const (
	ConditionHeld             = "Held"             // no transition is opened until it is released
	ConditionApprovalRequired = "ApprovalRequired" // a transition waits for approval
)

// AnnotationApproval on a VirtualMachine lists the transitions that wait for approval: "start", "stop", or both with a
// comma between.
const AnnotationApproval = "virtflow.io/approval-required"

// ConditionControlRefused shows on an object that a control, sent as a signal, was refused and why.
const ConditionControlRefused = "ControlRefused"

// QueryHistory answers the entity's recent operations, oldest first: a list of OperationRecord.
const QueryHistory = "history"

// ControlRequest is the argument of every control. Actor and Reason are the sender's own words; Temporal does not prove
// who sent it, so they are marked as claimed wherever they are shown.
type ControlRequest struct {
	Actor  string `json:"actor"`
	Reason string `json:"reason,omitempty"`
	// Operation is the one to approve; "" approves the one that waits.
	Operation Operation `json:"operation,omitempty"`
	// Node is the one to prefer, for prefer-node.
	Node string `json:"node,omitempty"`
	// Parallelism is how many guests are moved at a time, for drain; 0: as many as the cluster's configuration allows.
	Parallelism int `json:"parallelism,omitempty"`
	// State corrects the state, for repair: a JSON merge patch (RFC 7386) of the state query's answer.
	State json.RawMessage `json:"state,omitempty"`
}

// ControlAnswer has what was done, in one sentence.
type ControlAnswer struct {
	Summary string `json:"summary"`
}

// OperationRecord is one operation of an entity, or one control that it received, as the history query answers it.
type OperationRecord struct {
	Operation Operation `json:"operation"`
	// ID is the workflow of a transition.
	ID    string `json:"id,omitempty"`
	Why   string `json:"why,omitempty"`
	Actor string `json:"actor,omitempty"`
	// ApprovedBy is the user who approved it, as claimed.
	ApprovedBy string `json:"approvedBy,omitempty"`
	// Claimed is set when the actor is the sender's own word, and not known to the API server.
	Claimed  bool      `json:"claimed,omitempty"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until,omitzero"` // zero: it is open
	Attempts int       `json:"attempts,omitempty"`
	Outcome  string    `json:"outcome,omitempty"`
	// OutcomeUnknown is set when it may have been done although the outcome is a failure.
	OutcomeUnknown bool `json:"outcomeUnknown,omitempty"`
}
