package contract

import "time"

// What a VMI shows when its node does not answer.
const (
	// ConditionNodeLost on a VMI, and on its VM, says that its node has not been ready for a while: its guest may still
	// run there.
	ConditionNodeLost = "NodeLost"
	// ReasonNodeUnresponsive is the reason of that condition, of events, and of the status of a VMI that failed with
	// its node.
	ReasonNodeUnresponsive = "NodeUnresponsive"
	// ReasonKVMWorks and ReasonKVMUnavailable are the reasons of a Node's events when its node worker judges KVM anew.
	ReasonKVMWorks       = "KVMWorks"
	ReasonKVMUnavailable = "KVMUnavailable"
)

// ReasonDedicatedCPUs is why a guest with CPUs of its own cannot be moved.
const ReasonDedicatedCPUs = "DedicatedCPUsNotLiveMigratable"

// ActivityReportNode asks a node's worker, on the node's queue, for its present report. It only reads.
const ActivityReportNode = "ReportNode"

// NodeState is what crdwatch tells a VMI entity about the node that its launcher pod is on (signal SignalObserveNode).
// A node of which nothing was told is ready.
type NodeState struct {
	// PodUID is the launcher pod that is on the node.
	PodUID string `json:"podUID"`
	Name   string `json:"name"`
	// UID and ResourceVersion are the Node object's. Of a node that was found missing neither is known.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch int64 `json:"epoch,omitempty"`
	// Gone says that the Node object does not exist any more.
	Gone  bool `json:"gone,omitempty"`
	Ready bool `json:"ready,omitempty"`
	// Since is when the node became what Ready says.
	Since time.Time `json:"since,omitzero"`
	// OutOfService is the taint node.kubernetes.io/out-of-service with effect NoExecute: an administrator says that the
	// node is off.
	OutOfService bool `json:"outOfService,omitempty"`
}

// Fence calls a pod's node off, so that the guest there counts as ended although no kubelet has said so. The zero one
// calls nothing off.
type Fence struct {
	Node string  `json:"node,omitempty"`
	By   FenceBy `json:"by,omitempty"`
}

// FenceBy is what calls a node off.
type FenceBy string

// What calls a node off. Each has to hold still when a pod there is force-deleted, and no node that is ready is off.
const (
	FencedByPerson FenceBy = "person" // with the control fence-confirmed
	FencedByTaint  FenceBy = "taint"  // out-of-service
	FencedByEnd    FenceBy = "end"    // its Node object exists no more
)

// ReportNodeResult is the answer of ActivityReportNode.
type ReportNodeResult struct {
	Report NodeReport `json:"report"`
}
