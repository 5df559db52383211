package contract

import (
	"slices"
	"time"
)

// Workflows of live migration.
const (
	WorkflowMigration = "Migration"          // one VirtualMachineInstanceMigration
	WorkflowAdmission = "MigrationAdmission" // which migrations may begin: the cluster's limits
	WorkflowDrain     = "Drain"              // moves the guests away from one node
)

// AdmissionID is the workflow ID of the only workflow of type WorkflowAdmission.
const AdmissionID = "migrations"

// MigrationID is the workflow ID of the entity that owns a VirtualMachineInstanceMigration object.
func MigrationID(namespace, name string) string { return id("migration/" + namespace + "/" + name) }

// OperationMigrate moves a guest to another node.
const OperationMigrate Operation = "migrate"

// Names that Kubernetes objects carry because of a migration, or that KubeVirt's clients expect.
const (
	// FinalizerMigration is on every VirtualMachineInstanceMigration; the mutating webhook adds it.
	FinalizerMigration = "kubevirt.io/migrationJobFinalize"
	// LabelMigrationTarget on a VMI names the node that its guest is moved to.
	LabelMigrationTarget = "kubevirt.io/migrationTargetNodeName"
	// AnnotationMigrationName on a launcher pod is the name of the VirtualMachineInstanceMigration of LabelMigration.
	AnnotationMigrationName = "kubevirt.io/migrationJobName"
	// AnnotationEvacuation on a VirtualMachineInstanceMigration names the node that it evacuates.
	AnnotationEvacuation = "kubevirt.io/evacuationMigration"
	// AnnotationWorkloadUpdate on a VirtualMachineInstanceMigration says that it is to bring a newer launcher.
	AnnotationWorkloadUpdate = "kubevirt.io/workloadUpdateMigration"
	// AnnotationUnschedulableTimeout and AnnotationPendingTimeout on a VirtualMachineInstanceMigration are how many
	// seconds its target's pod may stay without a node, and without running.
	AnnotationUnschedulableTimeout = "kubevirt.io/migrationUnschedulablePodTimeoutSeconds"
	AnnotationPendingTimeout       = "kubevirt.io/migrationPendingPodTimeoutSeconds"
	// AnnotationConnections on a VirtualMachineInstanceMigration is through how many connections the guest's memory is
	// copied: from 2 to MaxConnections. Anything else is one.
	AnnotationConnections = "virtflow.io/migration-connections"
)

// MaxConnections is how many connections one guest's memory may be copied through: KubeVirt's number of them.
const MaxConnections = 8

// ConditionMigrationProgress on a VMI says how far the copy of its guest is. Its VM does not repeat it.
const ConditionMigrationProgress = "virtflow.io/MigrationProgress"

// Annotations of a VirtualMachineInstanceMigration that keep its MigrationStats.
const (
	AnnotationMigrationDowntime   = "virtflow.io/migration-downtime-ms"
	AnnotationMigrationTotal      = "virtflow.io/migration-total-ms"
	AnnotationMigrationBytes      = "virtflow.io/migration-bytes"
	AnnotationMigrationIterations = "virtflow.io/migration-iterations"
)

// Signals of live migration, beside those that deliver observations. Each carries the whole of what its sender has to
// say: sent twice, late or out of order it changes nothing. Only a request for admission counts although its migration
// was said to have ended: who asks says, too, when it has.
const (
	// SignalObserveMigration delivers a MigrationObservation, and to WorkflowAdmission a QueuedMigration.
	SignalObserveMigration = "observe-migration"
	// SignalClaim goes from a migration to its VMI, with a MigrationClaim.
	SignalClaim = "migration-claim"
	// SignalObserveClaim goes from a VMI to the migration that has claimed it, with a ClaimObservation. Each claim is
	// answered, and each change of what it says is told.
	SignalObserveClaim = "observe-claim"
	// SignalRequestAdmission goes from a migration to WorkflowAdmission, with an AdmissionRequest. Each is answered.
	SignalRequestAdmission = "request-admission"
	// SignalObserveAdmission goes from WorkflowAdmission to a migration, with an AdmissionObservation.
	SignalObserveAdmission = "observe-admission"
)

// Phases of a VirtualMachineInstanceMigration.
const (
	MigrationPending         = "Pending"
	MigrationScheduling      = "Scheduling"
	MigrationScheduled       = "Scheduled"
	MigrationPreparingTarget = "PreparingTarget"
	MigrationTargetReady     = "TargetReady"
	MigrationRunning         = "Running"
	MigrationSucceeded       = "Succeeded"
	MigrationFailed          = "Failed"
)

// Priorities of a VirtualMachineInstanceMigration, beside "", which comes after all of them.
const (
	PrioritySystemCritical    = "system-critical"
	PriorityUserTriggered     = "user-triggered"
	PrioritySystemMaintenance = "system-maintenance"
)

// MostMigrationsPerNode is how many guests leave a node at a time at most, whatever is configured. It bounds what the
// node's worker does at once; what it refused would use up the migrations' time.
const MostMigrationsPerNode = 8

// MigrationObservation is what crdwatch tells about a VirtualMachineInstanceMigration object.
type MigrationObservation struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch int64 `json:"epoch,omitempty"`
	// Gone says that the object no longer exists; only UID is set beside it.
	Gone              bool       `json:"gone,omitempty"`
	DeletionTimestamp *time.Time `json:"deletionTimestamp,omitempty"`
	CreatedAt         time.Time  `json:"createdAt,omitzero"`
	Finalizers        []string   `json:"finalizers,omitempty"`
	VMIName           string     `json:"vmiName,omitempty"`
	// Priority is spec.priority.
	Priority string `json:"priority,omitempty"`
	Actor    string `json:"actor,omitempty"`
	// Evacuates is the node of AnnotationEvacuation, and WorkloadUpdate says that AnnotationWorkloadUpdate is there.
	Evacuates      string `json:"evacuates,omitempty"`
	WorkloadUpdate bool   `json:"workloadUpdate,omitempty"`
	// UnschedulableSeconds and PendingSeconds are the annotations; nil where there is none, or what is no number.
	UnschedulableSeconds *int64 `json:"unschedulableSeconds,omitempty"`
	PendingSeconds       *int64 `json:"pendingSeconds,omitempty"`
	// Connections for the guest's memory, by the annotation; less than 2: one.
	Connections int `json:"connections,omitempty"`
	// Phase, PhaseTimes and Conditions are the status's, read back so that losing Temporal's history loses none of
	// them.
	Phase      string      `json:"phase,omitempty"`
	PhaseTimes []PhaseTime `json:"phaseTimes,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// Final says that a migration has ended.
func (o MigrationObservation) Final() bool {
	return o.Phase == MigrationSucceeded || o.Phase == MigrationFailed
}

// Closed says that a migration has ended and that nothing of it is left to be done: it needs no entity.
func (o MigrationObservation) Closed() bool {
	return o.Final() && !slices.Contains(o.Finalizers, FinalizerMigration)
}

// QueuedMigration is what crdwatch tells WorkflowAdmission about a VirtualMachineInstanceMigration object.
type QueuedMigration struct {
	Migration       Object `json:"migration"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch int64 `json:"epoch,omitempty"`
	// Ended says that it is final, or exists no more.
	Ended bool `json:"ended,omitempty"`
	// Started says that by its phase it has been admitted.
	Started   bool      `json:"started,omitempty"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	VMIName   string    `json:"vmiName,omitempty"`
	Node      string    `json:"node,omitempty"` // where its guest is, or was before it was moved
	Priority  string    `json:"priority,omitempty"`
	// Open is how many there were at that time that had not ended, with this one.
	Open int `json:"open,omitempty"`
}

// MigrationStage is how far a migration is with its VMI. Each stage comes after those above it; the last two end the
// claim.
type MigrationStage string

// The stages.
const (
	// StageClaim: no other migration is to begin.
	StageClaim MigrationStage = "claim"
	// StageHandOff: the target's pod runs, and the guest is about to be moved there.
	StageHandOff MigrationStage = "hand-off"
	// StageCopying: libvirt moves the guest.
	StageCopying MigrationStage = "copying"
	// StageMoved: the guest is the target's.
	StageMoved MigrationStage = "moved"
	// StageStayed: the guest is the source's, or there is none any more.
	StageStayed MigrationStage = "stayed"
)

// MigrationClaim is what a migration says to its VMI.
type MigrationClaim struct {
	Migration Object         `json:"migration"`
	VMIUID    string         `json:"vmiUID"`
	Stage     MigrationStage `json:"stage"`
	// State is the VMI's status.migrationState as it is to be, from StageHandOff on, and at StageStayed when it had
	// been.
	State *MigrationState `json:"state,omitempty"`
	// Domain is the target's, at StageMoved.
	Domain *DomainObservation `json:"domain,omitempty"`
	// Events are to be recorded on the VMI with the stage.
	Events []Event `json:"events,omitempty"`
}

// ClaimState is what became of a claim.
type ClaimState string

// The states of a claim.
const (
	ClaimRefused ClaimState = "refused"
	ClaimGiven   ClaimState = "given"
	// ClaimReleased: the claim has ended, and the VMI says so in its status where there is something to say.
	ClaimReleased ClaimState = "released"
)

// ClaimObservation is what a VMI says to the migration that has claimed it.
type ClaimObservation struct {
	Migration string `json:"migration"` // its UID
	VMIUID    string `json:"vmiUID,omitempty"`
	// Sequence grows with each observation of one claim.
	Sequence int64      `json:"sequence"`
	State    ClaimState `json:"state"`
	// Why it was refused, in KubeVirt's words where it has some. Again says that it is worth asking again.
	Why   string `json:"why,omitempty"`
	Again bool   `json:"again,omitempty"`
	// Stage is the last one that the VMI has in its status.
	Stage MigrationStage `json:"stage,omitempty"`
	// SourcePod is the pod that the guest runs in, or ran in before it was moved, and SourceNode that pod's node.
	SourcePod  Object `json:"sourcePod,omitzero"`
	SourceNode string `json:"sourceNode,omitempty"`
	// GuestMemory in bytes.
	GuestMemory int64 `json:"guestMemory,omitempty"`
	// Phase of the VMI. Deleting says that it is to go.
	Phase    string `json:"phase,omitempty"`
	Deleting bool   `json:"deleting,omitempty"`
	// Progress of the copy, as the VMI shows it; zero: none yet.
	Progress MigrationProgress `json:"progress,omitzero"`
}

// AdmissionRequest is what a migration says to WorkflowAdmission.
type AdmissionRequest struct {
	Migration Object `json:"migration"`
	// Done says that it has ended: it needs no place, or gives back the one that it has.
	Done     bool      `json:"done,omitempty"`
	VMIUID   string    `json:"vmiUID,omitempty"`
	Node     string    `json:"node,omitempty"` // of the source
	Priority string    `json:"priority,omitempty"`
	Since    time.Time `json:"since,omitzero"` // when it was created
	// NotBefore is the end of its back-off.
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Begun says that it was admitted already: it counts, whatever the limits.
	Begun bool `json:"begun,omitempty"`
	// Returned says that it gives back the position that it had, and asks for another: it could not use it now.
	Returned bool `json:"returned,omitempty"`
}

// AdmissionObservation is what WorkflowAdmission says to a migration.
type AdmissionObservation struct {
	Migration string `json:"migration"` // its UID
	Sequence  int64  `json:"sequence"`  // grows from one to the next
	Admitted  bool   `json:"admitted,omitempty"`
	// Position among Waiting, from 1, and Why it is not admitted, in words.
	Position int    `json:"position,omitempty"`
	Waiting  int    `json:"waiting,omitempty"`
	Why      string `json:"why,omitempty"`
}

// MigrationState is a VMI's status.migrationState, and at its end the migration's.
type MigrationState struct {
	MigrationUID  string                  `json:"migrationUID,omitempty"`
	SourceNode    string                  `json:"sourceNode,omitempty"`
	SourcePod     string                  `json:"sourcePod,omitempty"`
	TargetNode    string                  `json:"targetNode,omitempty"`
	TargetPod     string                  `json:"targetPod,omitempty"`
	TargetAddress string                  `json:"targetAddress,omitempty"` // without the port
	TargetPort    int                     `json:"targetPort,omitempty"`
	Network       string                  `json:"network,omitempty"` // Pod or Migration
	PolicyName    string                  `json:"policyName,omitempty"`
	Configuration *MigrationConfiguration `json:"configuration,omitempty"`
	Mode          string                  `json:"mode,omitempty"` // PreCopy, PostCopy or Paused
	// TargetDetected: the domain is there. TargetReady is when it went on.
	TargetDetected bool      `json:"targetDetected,omitempty"`
	TargetReady    time.Time `json:"targetReady,omitzero"`
	Start          time.Time `json:"start,omitzero"`
	End            time.Time `json:"end,omitzero"`
	AbortRequested bool      `json:"abortRequested,omitempty"`
	AbortStatus    string    `json:"abortStatus,omitempty"` // Succeeded, Failed, Aborting
	Completed      bool      `json:"completed,omitempty"`
	Failed         bool      `json:"failed,omitempty"`
	FailureReason  string    `json:"failureReason,omitempty"`
}

// UnderWay says that the guest is being moved.
func (s *MigrationState) UnderWay() bool { return s != nil && !s.Start.IsZero() && !s.Ended() }

// Ended says that the migration has ended, well or not.
func (s *MigrationState) Ended() bool { return s != nil && (s.Completed || s.Failed) }

// Migratable says whether an instance's guest can be moved to another node, as the instance and the cluster's
// configuration are now, in KubeVirt's words.
type Migratable struct {
	// Reason and Message say why it cannot be moved ("": it can).
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Storage says why it could not even if all its disks were shared ("": it could).
	Storage string `json:"storage,omitempty"`
	// Method is BlockMigration where a disk is copied, else LiveMigration.
	Method string `json:"method,omitempty"`
}

// MigrationConfiguration is how a guest is to be moved, with the meanings and defaults of KubeVirt's.
type MigrationConfiguration struct {
	Bandwidth        int64 `json:"bandwidth,omitempty"`        // bytes a second; 0: no limit
	CompletionPerGiB int64 `json:"completionPerGiB,omitempty"` // seconds; 0: no limit
	Progress         int64 `json:"progress,omitempty"`         // seconds without progress
	MaxDowntimeMs    int64 `json:"maxDowntimeMs,omitempty"`
	AutoConverge     bool  `json:"autoConverge,omitempty"`
	PostCopy         bool  `json:"postCopy,omitempty"`
	Disruption       bool  `json:"disruption,omitempty"`
	Unsafe           bool  `json:"unsafe,omitempty"`
	Parallel         int   `json:"parallel,omitempty"` // connections for the memory; less than 2: one
}
