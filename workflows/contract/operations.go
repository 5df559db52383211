package contract

import "time"

// Operations on a running instance. Each is an Update of this name on the instance's entity, with an InstanceRequest:
// refused or accepted by what the entity knows, done by the node's worker, and answered when it is done.
const (
	OperationPause      Operation = "pause"
	OperationUnpause    Operation = "unpause"
	OperationFreeze     Operation = "freeze"
	OperationUnfreeze   Operation = "unfreeze"
	OperationSoftReboot Operation = "softreboot"
	OperationReset      Operation = "reset"
)

// OperationEnd ends a launcher, for one that missed the kubelet's signal. It is the control plane's own and no Update.
const OperationEnd Operation = "end"

// OperationResize lets a guest see that claims have grown which its disks are on. It is the control plane's own, too.
const OperationResize Operation = "resize"

// InstanceOperations lists what users may ask for.
func InstanceOperations() []Operation {
	return []Operation{OperationPause, OperationUnpause, OperationFreeze, OperationUnfreeze, OperationSoftReboot,
		OperationReset}
}

// InstanceRequest is the argument of each. The Update's ID is that of the request: under the same one it is done once.
type InstanceRequest struct {
	Operation Operation `json:"operation"`
	// UID is the instance that is meant; another one of its name is not touched.
	UID string `json:"uid"`
	// Actor is the user whom the API server has authenticated.
	Actor string `json:"actor"`
	// DryRun: nothing is done, only refused where it would be.
	DryRun bool `json:"dryRun,omitempty"`
	// ACPI: the guest has it. Probed: the kubelet kills a guest that does not answer a probe of its own.
	ACPI   bool `json:"acpi,omitempty"`
	Probed bool `json:"probed,omitempty"`
	// ThawAfter is the number of seconds after which frozen file systems thaw by themselves; 0: not.
	ThawAfter int64 `json:"thawAfter,omitempty"`
	// NotAfter is until when somebody waits for the answer (zero: for ever): later it is refused, for it was told that
	// it was not done.
	NotAfter time.Time `json:"notAfter,omitzero"`
}

// Types of the application errors with which an entity refuses an operation or says that it failed.
const (
	RefusedState  = "InstanceState"     // the instance's state stands against it
	RefusedPhase  = "InstancePhase"     // there is no guest to reach
	RefusedProbed = "InstanceProbed"    // a paused guest would be killed
	RefusedGone   = "InstanceGone"      // it is another instance
	RefusedAway   = "NodeWorkerAway"    // nobody on the node does it at the moment
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
	// Claims are those that the instance has, for OperationResize.
	Claims []VolumeClaim `json:"claims,omitempty"`
}

// OperateDomainResult is the domain as the launcher reports it then.
type OperateDomainResult struct {
	Domain DomainObservation `json:"domain"`
}
