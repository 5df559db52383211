package contract

import (
	"fmt"
	"time"
)

// OperationDrain moves the guests away from a node.
const OperationDrain Operation = "drain"

// DrainID returns the workflow ID of the n-th drain of a node, for example node/worker-1/drain/2.
func DrainID(node string, n int) string {
	return id(fmt.Sprintf("%s/%s/%d", NodeID(node), OperationDrain, n))
}

// Controls of drains, with a ControlRequest each.
const (
	ControlDrain       = "drain"        // node, cordoned or tainted: move all guests away, Parallelism at a time
	ControlPauseDrain  = "pause-drain"  // drain: begin no other move; those under way continue
	ControlResumeDrain = "resume-drain" // drain: begin further moves
	ControlCancelDrain = "cancel-drain" // drain: cancel its moves; the remaining guests stay on the node
)

// SignalObserveEvacuees delivers an EvacueesObservation to the node's entity.
const SignalObserveEvacuees = "observe-evacuees"

// EvacueesObservation is crdwatch's observation of the instances that are asked to leave a node, for the node's entity.
type EvacueesObservation struct {
	// ResourceVersion is the one of the instance that changed last.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch int64 `json:"epoch,omitempty"`
	// Marked is how many instances on the node have its name in status.evacuationNodeName.
	Marked int `json:"marked"`
}

// TaintDrain is the key of the taint (effect NoSchedule) of a node that all its guests are to leave, unless the
// KubeVirt object names another (configuration.migrations.nodeDrainTaintKey).
const TaintDrain = "kubevirt.io/drain"

// DrainScope is which guests are to leave.
type DrainScope string

// Scopes of a drain.
const (
	// ScopeMarked means those whose pods were to be evicted (status.evacuationNodeName).
	ScopeMarked DrainScope = "marked"
	// ScopeAll means all of them; those that are not to be moved are evicted when the others have left. Only while the
	// node is cordoned or has the drain taint.
	ScopeAll DrainScope = "all"
)

// DrainInput starts a drain.
type DrainInput struct {
	Node  string     `json:"node"`
	UID   string     `json:"uid"`
	Scope DrainScope `json:"scope"`
	// Parallelism is how many guests are moved at a time; 0: as many as the cluster's configuration permits a node.
	Parallelism int `json:"parallelism,omitempty"`
	// Marked is the one of the latest EvacueesObservation.
	Marked int `json:"marked,omitempty"`
	// Why and Actor are the reason and who requested it.
	Why   string `json:"why"`
	Actor string `json:"actor,omitempty"`
	// Uncordoned is the one of DrainProgress.
	Uncordoned bool `json:"uncordoned,omitempty"`
	// Carried is the drain's own state across Continue-As-New.
	Carried []byte `json:"carried,omitempty"`
}

// DrainProgress is the whole progress that a node's entity signals to its open drain (SignalProgress).
type DrainProgress struct {
	Scope       DrainScope `json:"scope"`
	Parallelism int        `json:"parallelism,omitempty"`
	// Marked is the one of the latest EvacueesObservation. When it changes, the drain reads the instances again.
	Marked int `json:"marked,omitempty"`
	// Uncordoned is set when the node's cordon has ended: the guests that were to leave stay.
	Uncordoned bool `json:"uncordoned,omitempty"`
	// Gone is set when the node no longer exists.
	Gone bool `json:"gone,omitempty"`
}

// DrainResult is the result of a drain.
type DrainResult struct {
	// Summary is one plain sentence.
	Summary string `json:"summary"`
	// CancelledBy is the person who cancelled it, as claimed ("": it was not cancelled).
	CancelledBy string `json:"cancelledBy,omitempty"`
	// Scope is the one at its end: the taint may have come or gone meanwhile.
	Scope   DrainScope `json:"scope,omitempty"`
	Moved   int        `json:"moved,omitempty"`
	Evicted int        `json:"evicted,omitempty"`
	Left    int        `json:"left,omitempty"` // in other ways
}

// Activities of drains (package activities/cluster).
const (
	ActivityFindEvacuees     = "FindEvacuees"
	ActivityCreateMigrations = "CreateMigrations"
	ActivityDeleteMigrations = "DeleteMigrations"
	ActivityEvictPod         = "EvictPod"
	ActivityClearEvacuation  = "ClearEvacuation"
)

// MaxMovables is how many instances a drain or a workload update looks at, at once.
const MaxMovables = 100

// Priority decides, by UIDs, which instances are returned where there are more than MaxMovables: those that leave
// always, and those that are blocked only after all others, which they would hide for ever.
type Priority struct {
	Leaving []string `json:"leaving,omitempty"`
	Stuck   []string `json:"stuck,omitempty"`
}

// FindEvacueesInput asks for the instances on a node that have not ended.
type FindEvacueesInput struct {
	Node  string     `json:"node"`
	Scope DrainScope `json:"scope"`
	Priority
}

// FindEvacueesResult has at most MaxMovables of them, by Priority: those that can be moved first, the smallest before
// others.
type FindEvacueesResult struct {
	Evacuees []Movable `json:"evacuees,omitempty"`
	More     int       `json:"more,omitempty"`
	// Outbound is how many migrations away from one node the cluster's configuration permits at a time.
	Outbound int `json:"outbound"`
}

// Movable has what a drain or a workload update needs to know of an instance.
type Movable struct {
	VMI Object `json:"vmi"`
	// Strategy is its eviction strategy, or the cluster's where it has none; only drains ask for it, and for whether it
	// is Marked.
	Strategy string `json:"strategy,omitempty"`
	// Marked is set when it is asked to leave the node, and Descheduled when the descheduler asks for that.
	Marked      bool `json:"marked,omitempty"`
	Descheduled bool `json:"descheduled,omitempty"`
	// Migratable is its condition LiveMigratable; where it is False, Why is the condition's message.
	Migratable bool   `json:"migratable,omitempty"`
	Why        string `json:"why,omitempty"`
	// Running is set when its guest runs, and it has one launcher pod only.
	Running  bool      `json:"running,omitempty"`
	Deleting bool      `json:"deleting,omitempty"`
	Memory   int64     `json:"memory,omitempty"` // of the guest, in bytes
	Created  time.Time `json:"created,omitzero"`
	// Migration is its open one, with its Phase. Evacuates is set when it was made for the node.
	Migration Object `json:"migration,omitzero"`
	Phase     string `json:"phase,omitempty"`
	Evacuates bool   `json:"evacuates,omitempty"`
	// Failures counts its evacuations and workload updates that have failed since the last success, and LastFailure is
	// when the last one did.
	Failures    int       `json:"failures,omitempty"`
	LastFailure time.Time `json:"lastFailure,omitzero"`
}

// CreateMigrationsInput asks for migrations of instances away from a node: of any of them while the node is cordoned or
// has the drain taint, otherwise of marked ones only. Event SuccessfulCreate or FailedCreate on each instance.
type CreateMigrationsInput struct {
	Node      string    `json:"node"`
	Instances []Movable `json:"instances"` // VMI and Descheduled count
	Actor     string    `json:"actor,omitempty"`
}

// CreateMigrationsResult has the refusals of instances that have no migration now.
type CreateMigrationsResult struct {
	Made    int               `json:"made"`
	Refused []InstanceRefusal `json:"refused,omitempty"`
}

// InstanceRefusal is why a request for an instance was refused.
type InstanceRefusal struct {
	UID string `json:"uid"`
	Why string `json:"why"`
}

// DeleteMigrationsInput deletes migrations by UID: their own entities cancel them, where that is still possible.
type DeleteMigrationsInput struct {
	Migrations []Object `json:"migrations"`
}

// EvictPodInput evicts the launcher pod of an instance that is not to be moved, while the node is cordoned or has
// the drain taint. PodDisruptionBudgets apply.
type EvictPodInput struct {
	Node string `json:"node"`
	VMI  Object `json:"vmi"`
}

// EvictPodResult has Refused set when it was not evicted ("": it was, or is gone).
type EvictPodResult struct {
	Refused string `json:"refused,omitempty"`
}

// ClearEvacuationInput removes from instances the request to leave a node. One that is asked to leave another node
// stays so.
type ClearEvacuationInput struct {
	Node      string   `json:"node"`
	Instances []Object `json:"instances"`
}
