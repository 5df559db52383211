package contract

import (
	"slices"
	"time"
)

// Workflows of live migration.
const (
	WorkflowMigration = "Migration"          // one VirtualMachineInstanceMigration
	WorkflowAdmission = "MigrationAdmission" // the migration queue: which migrations may begin
	WorkflowDrain     = "Drain"              // moves the guests away from one node
)

// AdmissionID is the workflow ID of the migration queue, the only workflow of type WorkflowAdmission.
const AdmissionID = "migrations"

// MigrationID returns the workflow ID of the entity that owns a VirtualMachineInstanceMigration object.
func MigrationID(namespace, name string) string { return id("migration/" + namespace + "/" + name) }

// OperationMigrate moves a guest to another node.
const OperationMigrate Operation = "migrate"

// Names that virtflow sets on Kubernetes objects for a migration, or that KubeVirt's clients expect.
const (
	// FinalizerMigration is on every VirtualMachineInstanceMigration; the mutating webhook adds it.
	FinalizerMigration = "kubevirt.io/migrationJobFinalize"
	// LabelMigrationTarget on a VMI names the node that its guest is moved to.
	LabelMigrationTarget = "kubevirt.io/migrationTargetNodeName"
	// AnnotationMigrationName on a launcher pod is the name of the VirtualMachineInstanceMigration of LabelMigration.
	AnnotationMigrationName = "kubevirt.io/migrationJobName"
	// AnnotationEvictionInProgress on a launcher pod names who evicts its guest, for the descheduler: EvictedBy.
	AnnotationEvictionInProgress = "descheduler.alpha.kubernetes.io/eviction-in-progress"
	EvictedBy                    = "kubevirt"
	// AnnotationEvacuation on a VirtualMachineInstanceMigration names the node that it evacuates.
	AnnotationEvacuation = "kubevirt.io/evacuationMigration"
	// AnnotationWorkloadUpdate on a VirtualMachineInstanceMigration marks one that is to bring a newer launcher.
	AnnotationWorkloadUpdate = "kubevirt.io/workloadUpdateMigration"
	// AnnotationUnschedulableTimeout and AnnotationPendingTimeout on a VirtualMachineInstanceMigration are how many
	// seconds its target's pod may lack a node, and may take until it runs.
	AnnotationUnschedulableTimeout = "kubevirt.io/migrationUnschedulablePodTimeoutSeconds"
	AnnotationPendingTimeout       = "kubevirt.io/migrationPendingPodTimeoutSeconds"
	// AnnotationConnections on a VirtualMachineInstanceMigration is the number of connections that copy the guest's
	// memory: from 2 to MaxConnections. Any other value means one.
	AnnotationConnections = "virtflow.io/migration-connections"
)

// MaxConnections bounds the connections that copy one guest's memory: KubeVirt's number.
const MaxConnections = 8

// ConditionMigrationProgress on a VMI shows the progress of its guest's copy or, while it is False, why no node has
// room for the guest. The VM does not repeat the condition.
const ConditionMigrationProgress = "virtflow.io/MigrationProgress"

// Annotations of a VirtualMachineInstanceMigration that keep its MigrationStats.
const (
	AnnotationMigrationDowntime   = "virtflow.io/migration-downtime-ms"
	AnnotationMigrationTotal      = "virtflow.io/migration-total-ms"
	AnnotationMigrationBytes      = "virtflow.io/migration-bytes"
	AnnotationMigrationIterations = "virtflow.io/migration-iterations"
)

// Signals of live migration, beside those that deliver observations. Each carries its sender's whole state: sent twice,
// late or out of order it changes nothing. Only a request for admission counts even after an observation of the
// migration's end: the migration itself also reports when it has ended.
const (
	// SignalObserveMigration delivers a MigrationObservation, and to WorkflowAdmission a QueuedMigration.
	SignalObserveMigration = "observe-migration"
	// SignalClaim goes from a migration to its VMI, with a MigrationClaim: it requests a reservation.
	SignalClaim = "migration-claim"
	// SignalObserveClaim goes from a VMI to the migration that has requested a reservation, with a ClaimObservation: as
	// the answer to each request, and with each change.
	SignalObserveClaim = "observe-claim"
	// SignalRequestAdmission goes from a migration to the migration queue, with an AdmissionRequest. Each is answered.
	SignalRequestAdmission = "request-admission"
	// SignalObserveAdmission goes from the migration queue to a migration, with an AdmissionObservation.
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

// Priorities of a VirtualMachineInstanceMigration, beside "", which is the lowest.
const (
	PrioritySystemCritical    = "system-critical"
	PriorityUserTriggered     = "user-triggered"
	PrioritySystemMaintenance = "system-maintenance"
)

// MostMigrationsPerNode bounds how many guests leave a node at a time, whatever is configured. It bounds the work of
// the node's worker; a refusal there would use up the migrations' time.
const MostMigrationsPerNode = 8

// MigrationObservation is crdwatch's observation of a VirtualMachineInstanceMigration object, for its entity.
type MigrationObservation struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch int64 `json:"epoch,omitempty"`
	// Gone is set when the object no longer exists; only UID is set beside it.
	Gone              bool       `json:"gone,omitempty"`
	DeletionTimestamp *time.Time `json:"deletionTimestamp,omitempty"`
	CreatedAt         time.Time  `json:"createdAt,omitzero"`
	Finalizers        []string   `json:"finalizers,omitempty"`
	VMIName           string     `json:"vmiName,omitempty"`
	// Priority is spec.priority.
	Priority string `json:"priority,omitempty"`
	Actor    string `json:"actor,omitempty"`
	// Evacuates is the node of AnnotationEvacuation. WorkloadUpdate is set when AnnotationWorkloadUpdate is.
	Evacuates      string `json:"evacuates,omitempty"`
	WorkloadUpdate bool   `json:"workloadUpdate,omitempty"`
	// UnschedulableSeconds and PendingSeconds are the annotations; nil where one is missing, or not a number.
	UnschedulableSeconds *int64 `json:"unschedulableSeconds,omitempty"`
	PendingSeconds       *int64 `json:"pendingSeconds,omitempty"`
	// Connections is the annotation's number for the guest's memory; less than 2: one.
	Connections int `json:"connections,omitempty"`
	// Phase, PhaseTimes and Conditions are the status's, read back so that losing Temporal's history loses none of
	// them.
	Phase      string      `json:"phase,omitempty"`
	PhaseTimes []PhaseTime `json:"phaseTimes,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// Final reports whether a migration has ended.
func (o MigrationObservation) Final() bool {
	return o.Phase == MigrationSucceeded || o.Phase == MigrationFailed
}

// Closed reports whether a migration has ended with nothing left to clean up: it needs no entity.
func (o MigrationObservation) Closed() bool {
	return o.Final() && !slices.Contains(o.Finalizers, FinalizerMigration)
}

// QueuedMigration is crdwatch's observation of a VirtualMachineInstanceMigration object, for the migration queue.
type QueuedMigration struct {
	Migration       Object `json:"migration"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch int64 `json:"epoch,omitempty"`
	// Ended is set when it is final, or no longer exists.
	Ended bool `json:"ended,omitempty"`
	// Started is set when its phase shows that it was admitted.
	Started   bool      `json:"started,omitempty"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	VMIName   string    `json:"vmiName,omitempty"`
	Node      string    `json:"node,omitempty"` // where its guest is, or was before it was moved
	Priority  string    `json:"priority,omitempty"`
	// Open is the number of migrations then that had not ended, with this one.
	Open int `json:"open,omitempty"`
}

// MigrationStage is how far a migration is with its reservation. Each stage comes after those above it; the last two
// end the reservation.
type MigrationStage string

// Stages of a migration with its reservation.
const (
	// StageClaim requests the reservation: no other migration is to begin.
	StageClaim MigrationStage = "claim"
	// StageHandOff means that the target's pod runs, and the guest is about to be moved there.
	StageHandOff MigrationStage = "hand-off"
	// StageCopying means that libvirt moves the guest.
	StageCopying MigrationStage = "copying"
	// StageMoved means that the guest runs at the target.
	StageMoved MigrationStage = "moved"
	// StageStayed means that the guest runs at the source, or has ended.
	StageStayed MigrationStage = "stayed"
)

// MigrationClaim is a migration's request to its VMI: a reservation, and how far the migration is with it.
type MigrationClaim struct {
	Migration Object         `json:"migration"`
	VMIUID    string         `json:"vmiUID"`
	Stage     MigrationStage `json:"stage"`
	// State is the VMI's desired status.migrationState, from StageHandOff on, and at StageStayed after a hand-off.
	State *MigrationState `json:"state,omitempty"`
	// Domain is the target's, at StageMoved.
	Domain *DomainObservation `json:"domain,omitempty"`
	// Events are to be recorded on the VMI with the stage.
	Events []Event `json:"events,omitempty"`
}

// ClaimState is the state of a reservation.
type ClaimState string

// States of a reservation.
const (
	ClaimRefused ClaimState = "refused"
	ClaimGiven   ClaimState = "given"
	// ClaimReleased means that the reservation has ended, and the VMI's status shows the result, if there is one.
	ClaimReleased ClaimState = "released"
)

// ClaimObservation is a VMI's answer to the migration that has requested a reservation.
type ClaimObservation struct {
	Migration string `json:"migration"` // its UID
	VMIUID    string `json:"vmiUID,omitempty"`
	// Sequence grows with each observation of one reservation.
	Sequence int64      `json:"sequence"`
	State    ClaimState `json:"state"`
	// Why is the reason of a refusal, in KubeVirt's words where it has some. Again is set when a later request may
	// succeed.
	Why   string `json:"why,omitempty"`
	Again bool   `json:"again,omitempty"`
	// Stage is the last one that the VMI has in its status.
	Stage MigrationStage `json:"stage,omitempty"`
	// SourcePod is the pod that the guest runs in, or ran in before it was moved, and SourceNode that pod's node.
	SourcePod  Object `json:"sourcePod,omitzero"`
	SourceNode string `json:"sourceNode,omitempty"`
	// GuestMemory is in bytes.
	GuestMemory int64 `json:"guestMemory,omitempty"`
	// Phase is the VMI's. Deleting is set when the VMI is being deleted.
	Phase    string `json:"phase,omitempty"`
	Deleting bool   `json:"deleting,omitempty"`
	// Progress is the copy's, as the VMI shows it; zero: none yet.
	Progress MigrationProgress `json:"progress,omitzero"`
}

// AdmissionRequest is a migration's request to the migration queue.
type AdmissionRequest struct {
	Migration Object `json:"migration"`
	// Done is set when it has ended: it needs no admission, or returns the one that it has.
	Done     bool      `json:"done,omitempty"`
	VMIUID   string    `json:"vmiUID,omitempty"`
	Node     string    `json:"node,omitempty"` // of the source
	Priority string    `json:"priority,omitempty"`
	Since    time.Time `json:"since,omitzero"` // when it was created
	// NotBefore is the end of its back-off.
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Begun is set when it was admitted already: it counts, whatever the limits.
	Begun bool `json:"begun,omitempty"`
	// Returned is set when it returns its admission, which it cannot use now, and requests another.
	Returned bool `json:"returned,omitempty"`
	// Unscheduled is set when its target's pod has waited long for a node, or to start: it has no admission, and
	// requests one once the pod runs.
	Unscheduled bool `json:"unscheduled,omitempty"`
}

// AdmissionObservation is the migration queue's answer to a migration.
type AdmissionObservation struct {
	Migration string `json:"migration"` // its UID
	Sequence  int64  `json:"sequence"`  // grows from one to the next
	Admitted  bool   `json:"admitted,omitempty"`
	// Position is among Waiting, from 1, and Why is the reason that it is not admitted, in words.
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
	// TargetDetected is set when the target's domain exists. TargetReady is when it resumed.
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

// UnderWay reports whether the guest is being moved.
func (s *MigrationState) UnderWay() bool { return s != nil && !s.Start.IsZero() && !s.Ended() }

// Ended reports whether the migration has ended, with success or failure.
func (s *MigrationState) Ended() bool { return s != nil && (s.Completed || s.Failed) }

// Migratable has whether an instance's guest can be moved to another node, as the instance and the cluster's
// configuration are now, in KubeVirt's words.
type Migratable struct {
	// Reason and Message are why it cannot be moved ("": it can).
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Storage is why it could not be moved even if all its disks were shared ("": it could).
	Storage string `json:"storage,omitempty"`
	// Method is BlockMigration where a disk is copied, otherwise LiveMigration.
	Method string `json:"method,omitempty"`
}

// MigrationConfiguration has the settings of a move, with the meanings and defaults of KubeVirt's.
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
