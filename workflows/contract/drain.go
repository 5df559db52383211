package contract

import (
	"fmt"
	"time"
)

// OperationDrain moves the guests away from a node.
const OperationDrain Operation = "drain"

// DrainID is the workflow ID of the n-th drain of a node, for example node/worker-1/drain/2.
func DrainID(node string, n int) string {
	return id(fmt.Sprintf("%s/%s/%d", NodeID(node), OperationDrain, n))
}

// Controls of drains, with a ControlRequest each.
const (
	ControlDrain       = "drain"        // node, cordoned or tainted: move all guests away; Parallelism at a time
	ControlPauseDrain  = "pause-drain"  // drain: begin no other move; those under way go on
	ControlResumeDrain = "resume-drain" // drain: go on
	ControlCancelDrain = "cancel-drain" // drain: cancel its moves, and let those that are left stay
)

// SignalObserveEvacuees delivers an EvacueesObservation to the node's entity.
const SignalObserveEvacuees = "observe-evacuees"

// EvacueesObservation is what crdwatch tells a node's entity about the instances that are asked to leave the node.
type EvacueesObservation struct {
	// ResourceVersion is that of the instance that changed last.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch int64 `json:"epoch,omitempty"`
	// Marked is how many instances on the node have its name in status.evacuationNodeName.
	Marked int `json:"marked"`
}

// TaintDrain is the key of the taint (effect NoSchedule) of a node that all its guests are to leave: KubeVirt's
// default, and the only one.
const TaintDrain = "kubevirt.io/drain"

// DrainScope says which guests are to leave.
type DrainScope string

// The scopes.
const (
	// ScopeMarked: those whose pods somebody wanted to evict (status.evacuationNodeName).
	ScopeMarked DrainScope = "marked"
	// ScopeAll: all of them; those that are not to be moved are evicted when the others have left. Only while the node
	// is cordoned or has TaintDrain.
	ScopeAll DrainScope = "all"
)

// DrainInput starts a drain.
type DrainInput struct {
	Node  string     `json:"node"`
	UID   string     `json:"uid"`
	Scope DrainScope `json:"scope"`
	// Parallelism is how many guests are moved at a time; 0: as many as the cluster's configuration allows a node.
	Parallelism int `json:"parallelism,omitempty"`
	// Marked is the latest EvacueesObservation's.
	Marked int `json:"marked,omitempty"`
	// Why and Actor are the record of who asked for it.
	Why   string `json:"why"`
	Actor string `json:"actor,omitempty"`
	// Carried is the drain's own state across Continue-As-New.
	Carried []byte `json:"carried,omitempty"`
}

// DrainProgress is what a node's entity tells its open drain (signal SignalProgress), whole.
type DrainProgress struct {
	Scope       DrainScope `json:"scope"`
	Parallelism int        `json:"parallelism,omitempty"`
	// Marked is the latest EvacueesObservation's. Where it changes there is something to look at.
	Marked int `json:"marked,omitempty"`
	// Gone says that the node exists no more.
	Gone bool `json:"gone,omitempty"`
}

// DrainResult is how a drain went.
type DrainResult struct {
	// Summary is one plain sentence.
	Summary string `json:"summary"`
	// CancelledBy is the person who cancelled it, as claimed ("": nobody did).
	CancelledBy string `json:"cancelledBy,omitempty"`
	// Scope is whom it was about when it ended: the taint may have come or gone since.
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

// Priority says who is looked at where there are more than MaxMovables, by UIDs: those that leave always, and those
// that nothing can be done about after all others, which they would hide for ever.
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
	// Outbound is how many migrations away from one node the cluster's configuration allows at a time.
	Outbound int `json:"outbound"`
}

// Movable is what a drain or a workload update needs to know of an instance.
type Movable struct {
	VMI Object `json:"vmi"`
	// Strategy is its eviction strategy, or the cluster's where it has none; only drains ask for it, and for whether it
	// is Marked.
	Strategy string `json:"strategy,omitempty"`
	// Marked says that it is asked to leave the node, and Descheduled that the descheduler did.
	Marked      bool `json:"marked,omitempty"`
	Descheduled bool `json:"descheduled,omitempty"`
	// Migratable is its condition LiveMigratable; otherwise Why is that one's message.
	Migratable bool   `json:"migratable,omitempty"`
	Why        string `json:"why,omitempty"`
	// Running says that its guest runs, and that it has one launcher pod only.
	Running  bool      `json:"running,omitempty"`
	Deleting bool      `json:"deleting,omitempty"`
	Memory   int64     `json:"memory,omitempty"` // of the guest, in bytes
	Created  time.Time `json:"created,omitzero"`
	// Migration is one of it that has not ended, with its Phase. Evacuates says that it was made for the node.
	Migration Object `json:"migration,omitzero"`
	Phase     string `json:"phase,omitempty"`
	Evacuates bool   `json:"evacuates,omitempty"`
	// Failures counts its evacuations and workload updates that have failed since one succeeded, and LastFailure is
	// when the last of them did.
	Failures    int       `json:"failures,omitempty"`
	LastFailure time.Time `json:"lastFailure,omitzero"`
}

// CreateMigrationsInput asks for migrations of instances away from a node: of any of them while the node is cordoned or
// has TaintDrain, otherwise of marked ones only. Event SuccessfulCreate or FailedCreate on each instance.
type CreateMigrationsInput struct {
	Node      string    `json:"node"`
	Instances []Movable `json:"instances"` // VMI and Descheduled count
	Actor     string    `json:"actor,omitempty"`
}

// CreateMigrationsResult says what became of each that has none now.
type CreateMigrationsResult struct {
	Made    int               `json:"made"`
	Refused []InstanceRefusal `json:"refused,omitempty"`
}

// InstanceRefusal is why nothing was done about an instance.
type InstanceRefusal struct {
	UID string `json:"uid"`
	Why string `json:"why"`
}

// DeleteMigrationsInput deletes migrations by UID: their own entities cancel them, as far as that goes.
type DeleteMigrationsInput struct {
	Migrations []Object `json:"migrations"`
}

// EvictPodInput evicts the launcher pod of an instance that is not to be moved, while the node is cordoned or has
// TaintDrain. PodDisruptionBudgets are asked.
type EvictPodInput struct {
	Node string `json:"node"`
	VMI  Object `json:"vmi"`
}

// EvictPodResult: Refused says why it was not ("": it was, or there is no pod any more).
type EvictPodResult struct {
	Refused string `json:"refused,omitempty"`
}

// ClearEvacuationInput takes back that instances are to leave a node. One that is asked to leave another node stays so.
type ClearEvacuationInput struct {
	Node      string   `json:"node"`
	Instances []Object `json:"instances"`
}
