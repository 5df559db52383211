package contract

import "time"

// Operations on a running instance. Each is an Update of this name on the instance's entity, with an InstanceRequest:
// the entity accepts or refuses it by its state, the node's worker carries it out, and the Update returns when that is
// done.
const (
	OperationPause      Operation = "pause"
	OperationUnpause    Operation = "unpause"
	OperationFreeze     Operation = "freeze"
	OperationUnfreeze   Operation = "unfreeze"
	OperationSoftReboot Operation = "softreboot"
	OperationReset      Operation = "reset"
)

// OperationEnd ends a launcher that missed the kubelet's signal. Only the control plane requests it; it is no Update.
const OperationEnd Operation = "end"

// OperationResize lets a guest use the growth of its disks' PersistentVolumeClaims. Only the control plane requests it.
const OperationResize Operation = "resize"

// InstanceOperations returns the operations that users may request.
func InstanceOperations() []Operation {
	return []Operation{OperationPause, OperationUnpause, OperationFreeze, OperationUnfreeze, OperationSoftReboot,
		OperationReset}
}

// InstanceRequest is the argument of each. The Update's ID is the request's: with the same ID it is done once.
type InstanceRequest struct {
	Operation Operation `json:"operation"`
	// UID is the instance's; another one of its name is refused.
	UID string `json:"uid"`
	// Actor is the user whom the API server has authenticated.
	Actor string `json:"actor"`
	// DryRun only checks whether the operation would be refused.
	DryRun bool `json:"dryRun,omitempty"`
	// ACPI is set when the guest has ACPI, and Probed when the kubelet kills a guest that fails a probe of its own.
	ACPI   bool `json:"acpi,omitempty"`
	Probed bool `json:"probed,omitempty"`
	// ThawAfter is the number of seconds after which frozen file systems thaw by themselves; 0: they do not.
	ThawAfter int64 `json:"thawAfter,omitempty"`
	// NotAfter is until when the caller waits for the answer (zero: for ever). Later the operation is refused, since
	// the caller was answered that it was not done.
	NotAfter time.Time `json:"notAfter,omitzero"`
}

// Types of the application errors with which an entity refuses an operation or reports its failure.
const (
	RefusedState  = "InstanceState"     // the instance's state prevents it
	RefusedPhase  = "InstancePhase"     // there is no running guest
	RefusedProbed = "InstanceProbed"    // a paused guest would be killed
	RefusedGone   = "InstanceGone"      // it is another instance
	RefusedAway   = "NodeWorkerAway"    // no worker on the node does it at the moment
	RefusedFailed = "InstanceOperation" // it was tried and failed
)

// ActivityOperateDomain is on a node's queue, with an OperateDomainInput.
const ActivityOperateDomain = "OperateDomain"

// OperateDomainInput asks a node's worker to do one operation on the running domain in a pod.
type OperateDomainInput struct {
	VMI       Object    `json:"vmi"`
	Pod       Object    `json:"pod"`
	Operation Operation `json:"operation"`
	ThawAfter int64     `json:"thawAfter,omitempty"` // seconds
	// Grace is how long the guest may take from when its launcher was first asked to end, in seconds, for OperationEnd;
	// nil: the launcher's own value. It only ever shortens that.
	Grace *int64 `json:"grace,omitempty"`
	// Claims are the instance's PersistentVolumeClaims, for OperationResize.
	Claims []VolumeClaim `json:"claims,omitempty"`
}

// OperateDomainResult is the domain as the launcher reports it then.
type OperateDomainResult struct {
	Domain DomainObservation `json:"domain"`
}
