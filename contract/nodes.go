package contract

import "time"

// Names on a VMI whose node does not answer.
const (
	// ConditionNodeLost on a VMI, and on its VM, is True when its node has not been ready for a while: its guest may
	// still run there.
	ConditionNodeLost = "NodeLost"
	// ReasonNodeUnresponsive is the reason of that condition, of events, and of the status of a VMI that failed with
	// its node.
	ReasonNodeUnresponsive = "NodeUnresponsive"
	// ReasonEvicted is the reason of the status of a VMI whose pod was deleted while its guest ran, and of the event of
	// its VM.
	ReasonEvicted = "Evicted"
	// ReasonKVMWorks and ReasonKVMUnavailable are the reasons of a Node's events when its node worker's check of KVM
	// changes.
	ReasonKVMWorks       = "KVMWorks"
	ReasonKVMUnavailable = "KVMUnavailable"
)

// ReasonDedicatedCPUs is why a guest with dedicated CPUs cannot be moved.
const ReasonDedicatedCPUs = "DedicatedCPUsNotLiveMigratable"

// ActivityReportNode asks a node's worker, on the node's queue, for its present report. It only reads.
const ActivityReportNode = "ReportNode"

// NodeState is crdwatch's observation of the node of a launcher pod, for the entity of its VMI (SignalObserveNode). A
// node without an observation is ready.
type NodeState struct {
	// PodUID is the launcher pod that is on the node.
	PodUID string `json:"podUID"`
	Name   string `json:"name"`
	// UID and ResourceVersion are the Node object's. Of a node that was found missing neither is known.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch int64 `json:"epoch,omitempty"`
	// Gone is set when the Node object no longer exists.
	Gone  bool `json:"gone,omitempty"`
	Ready bool `json:"ready,omitempty"`
	// Since is when the node became what Ready shows.
	Since time.Time `json:"since,omitzero"`
	// OutOfService is set with the taint node.kubernetes.io/out-of-service with effect NoExecute: an administrator
	// confirms that the node is off.
	OutOfService bool `json:"outOfService,omitempty"`
}

// Fence declares a pod's node off, so that the guest there counts as ended without its kubelet's report. The zero value
// declares nothing.
type Fence struct {
	Node string  `json:"node,omitempty"`
	By   FenceBy `json:"by,omitempty"`
}

// FenceBy is the source of a fence.
type FenceBy string

// Sources of a fence. Each has to hold still when a pod there is force-deleted, and no node that is ready is off.
const (
	FencedByPerson FenceBy = "person" // with the control fence-confirmed
	FencedByTaint  FenceBy = "taint"  // out-of-service
	FencedByEnd    FenceBy = "end"    // its Node object no longer exists
)

// ReportNodeResult is the answer of ActivityReportNode.
type ReportNodeResult struct {
	Report NodeReport `json:"report"`
}
