package contract

// WorkflowWorkloadUpdate is the type of the workflow that has guests leave launchers whose image is not the one that
// new ones get. It runs while there are any.
const WorkflowWorkloadUpdate = "WorkloadUpdate"

// WorkloadUpdateID is the workflow ID of the only workflow of type WorkflowWorkloadUpdate.
const WorkloadUpdateID = "workload-update"

// SignalObserveOutdated delivers an OutdatedObservation to WorkflowWorkloadUpdate.
const SignalObserveOutdated = "observe-outdated"

// AnnotationLauncherImage on a VirtualMachineInstanceMigration is the image that its workload update is to bring.
const AnnotationLauncherImage = "virtflow.io/launcher-image"

// OutdatedObservation is crdwatch's observation of outdated launchers, for WorkflowWorkloadUpdate.
type OutdatedObservation struct {
	// Image is the one that new launchers get.
	Image string `json:"image"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch int64 `json:"epoch,omitempty"`
	// Sequence grows with each observation of one epoch: it is crdwatch's time in milliseconds, at least.
	Sequence int64 `json:"sequence"`
	// Outdated is how many instances have a launcher of another one.
	Outdated int `json:"outdated"`
}

// Activities of workload updates (package activities/cluster). They fail, and may succeed later, in a control worker
// that gives new launchers another image than the input has: one of two versions that run side by side.
const (
	ActivityFindOutdated  = "FindOutdated"
	ActivityMoveOutdated  = "MoveOutdated"
	ActivityEvictOutdated = "EvictOutdated"
	ErrorOtherLauncher    = "OtherLauncher" // the type of that error
	MaxMarked             = 500             // how many labels FindOutdated writes at once
)

// FindOutdatedInput asks for the instances that have not ended and whose launchers have another image. All reads every
// instance, and corrects the label LabelOutdatedImage; otherwise only those with the label are read.
type FindOutdatedInput struct {
	Image string `json:"image"`
	All   bool   `json:"all,omitempty"`
	Priority
}

// FindOutdatedResult has at most MaxMovables of them, by Priority: those that can be moved first, the smallest before
// others.
type FindOutdatedResult struct {
	Instances []Movable `json:"instances,omitempty"`
	More      int       `json:"more,omitempty"`
	// Unmarked is how many labels are still to be corrected.
	Unmarked int `json:"unmarked,omitempty"`
	// Strategy is the configured way to update them.
	Strategy UpdateStrategy `json:"strategy"`
}

// UpdateStrategy is spec.workloadUpdateStrategy of the KubeVirt object.
type UpdateStrategy struct {
	// Migrate moves those that can be moved, Limit of them at a time.
	Migrate bool `json:"migrate,omitempty"`
	Limit   int  `json:"limit,omitempty"`
	// Evict evicts the others, Batch of them each IntervalSeconds.
	Evict           bool  `json:"evict,omitempty"`
	Batch           int   `json:"batch,omitempty"`
	IntervalSeconds int64 `json:"intervalSeconds,omitempty"`
}

// Acts reports whether the strategy updates any instance.
func (s UpdateStrategy) Acts() bool { return s.Migrate || s.Evict }

// UpdateInstancesInput asks to update instances, of those that are still outdated.
type UpdateInstancesInput struct {
	Image     string   `json:"image"`
	Instances []Object `json:"instances"`
}

// UpdateInstancesResult has the instances that could not be updated, and why.
type UpdateInstancesResult struct {
	Refused []InstanceRefusal `json:"refused,omitempty"`
}

// WorkloadUpdateResult is the result of a workload update.
type WorkloadUpdateResult struct {
	// Summary is one plain sentence.
	Summary string `json:"summary"`
	Moved   int    `json:"moved,omitempty"`
	Evicted int    `json:"evicted,omitempty"`
	Left    int    `json:"left,omitempty"` // in other ways
}
