package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Namespace is the Temporal namespace that virtflow registers and uses by default.
const Namespace = "virtflow"

// ControlTaskQueue carries every workflow but the transitions, and every activity that talks to Kubernetes.
const ControlTaskQueue = "virtflow-control"

// TransitionTaskQueue carries the transitions. Temporal's SDK polls only the worker's sticky queue of a task queue as
// long as tasks wait there: while entities have much to do, a transition could not begin.
const TransitionTaskQueue = "virtflow-transitions"

// NodeTaskQueue returns the queue that only the worker of that node polls.
func NodeTaskQueue(node string) string { return id("virtflow-node-" + node) }

// MaxLength is how long a workflow ID, the name of a task queue or a search attribute of type Keyword may be, in bytes:
// Temporal's columns in PostgreSQL and MySQL have 255 characters. Namespaces of Kubernetes have up to 63, names up to
// 253.
const MaxLength = 255

// hashMark stands before the hash in a shortened ID. No name in Kubernetes has it, so a shortened ID is never the ID of
// another object.
const hashMark = "~"

// id returns the ID whole where it fits; otherwise shortened.
func id(whole string) string {
	if len(whole) <= MaxLength && !strings.Contains(whole, hashMark) {
		return whole
	}
	return shorten(whole, MaxLength)
}

// shorten keeps the beginning, which people read, and appends a hash of the whole, which makes it unique.
func shorten(whole string, most int) string {
	sum := sha256.Sum256([]byte(whole))
	hash := hashMark + hex.EncodeToString(sum[:16])
	return whole[:min(len(whole), most-len(hash))] + hash
}

// Keyword returns a value cut to what a search attribute of type Keyword may have: MaxLength bytes, whole characters.
func Keyword(value string) string { return Cut(value, MaxLength) }

// Workflow types, as Temporal's UI shows them.
const (
	WorkflowVM        = "VirtualMachine"
	WorkflowVMI       = "VirtualMachineInstance"
	WorkflowNode      = "Node"
	WorkflowStartVM   = "StartVirtualMachine"
	WorkflowStopVM    = "StopVirtualMachine"
	WorkflowRestartVM = "RestartVirtualMachine"
)

// WorkflowTypes returns all workflow types.
func WorkflowTypes() []string {
	return []string{
		WorkflowVM, WorkflowVMI, WorkflowReplicaSet, WorkflowNode, WorkflowMigration, WorkflowAdmission,
		WorkflowWorkloadUpdate, WorkflowStartVM, WorkflowStopVM, WorkflowRestartVM, WorkflowReplicate, WorkflowDrain,
		WorkflowFencingToken,
	}
}

// VMID returns the workflow ID of the entity that owns a VirtualMachine object.
func VMID(namespace, name string) string { return id("vm/" + namespace + "/" + name) }

// VMIID returns the workflow ID of the entity that owns a VirtualMachineInstance object.
func VMIID(namespace, name string) string { return id("vmi/" + namespace + "/" + name) }

// NodeID returns the workflow ID of the entity that owns a node's state in virtflow.
func NodeID(name string) string { return id("node/" + name) }

// TransitionID returns the workflow ID of the n-th transition of one incarnation (UID) of an entity, for example
// vm/default/web/3f2a9c1e/start/2. The UID is cut to its first eight characters: enough to distinguish incarnations of
// one name, and short enough to read.
func TransitionID(entityID, uid string, op Operation, n int) string {
	end := fmt.Sprintf("/%s/%s/%d", ShortUID(uid), op, n)
	if len(entityID)+len(end) > MaxLength {
		entityID = shorten(entityID, MaxLength-len(end))
	}
	return entityID + end
}

// ShortUID returns the first eight characters of a Kubernetes UID.
func ShortUID(uid string) string {
	if len(uid) > 8 {
		return uid[:8]
	}
	return uid
}

// Operation names a transition of an entity; it is also the value of the search attribute VirtflowOperation.
type Operation string

// Operations of a VirtualMachine and of a VirtualMachineInstance.
const (
	OperationNone    Operation = ""
	OperationStart   Operation = "start"
	OperationStop    Operation = "stop"
	OperationRestart Operation = "restart"
	OperationCreate  Operation = "create"
	OperationDelete  Operation = "delete"
)

// Search attributes, all of type Keyword, registered by the control worker when it starts.
const (
	SearchNamespace = "VirtflowNamespace"
	SearchName      = "VirtflowName"
	SearchUID       = "VirtflowUID"
	SearchNode      = "VirtflowNode"
	SearchPhase     = "VirtflowPhase"
	SearchOperation = "VirtflowOperation"
	SearchActor     = "VirtflowActor"
)

// SearchAttributes returns the names of all search attributes of virtflow.
func SearchAttributes() []string {
	return []string{SearchNamespace, SearchName, SearchUID, SearchNode, SearchPhase, SearchOperation, SearchActor}
}

// Signals that deliver observations. Delivering one twice, late or out of order changes nothing: each carries the UID
// and the version that it was made from.
const (
	SignalObserveVM     = "observe-vm"
	SignalObserveVMI    = "observe-vmi"
	SignalObservePod    = "observe-pod"
	SignalObserveDomain = "observe-domain"
	SignalObserveNode   = "observe-node"
	SignalReportNode    = "report-node"

	// SignalProgress goes from a VM entity to its open transition.
	SignalProgress = "progress"
)

// Queries that every entity answers.
const (
	QueryState = "state"
	QueryPlan  = "plan"
)

// EntityInput starts an entity workflow. Carried is the entity's own state across Continue-As-New and is nil on a first
// start.
type EntityInput struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Carried   []byte `json:"carried,omitempty"`
}
