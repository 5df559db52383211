package contract

import "time"

// Activities of a migration on the control queue (package activities/cluster), idempotent as all of them.
const (
	ActivityReadMigration      = "ReadMigration"
	ActivityPatchMigration     = "PatchMigration"
	ActivityDeleteMigration    = "DeleteMigration"
	ActivityConfigureMigration = "ConfigureMigration"
	ActivityCreateTargetPod    = "CreateTargetPod"
	ActivityDeleteMigrationPod = "DeleteMigrationPod"
	ActivityReadLimits         = "ReadMigrationLimits"
)

// Activities of a migration on a node's queue (package activities/node). All are idempotent.
const (
	ActivityOfferMigration   = "OfferMigration"   // source: lists what must move, with the fingerprint of its key
	ActivityPrepareTarget    = "PrepareTarget"    // target: opens the port
	ActivityMigrateDomain    = "MigrateDomain"    // source: moves the guest, or follows a move that is under way
	ActivityAbortMigration   = "AbortMigration"   // source
	ActivityAdjustMigration  = "AdjustMigration"  // source
	ActivityFinishTarget     = "FinishTarget"     // target: resumes the guest, with the source's proof
	ActivityWithdrawTarget   = "WithdrawTarget"   // target: ends its launcher and closes the port
	ActivityInspectMigration = "InspectMigration" // either: reads the state of the launcher and the session
)

// ErrorUnsuitable is the type of the error of a source that cannot send its guest, or of a target that does not suit
// it; not retryable.
const ErrorUnsuitable = "Unsuitable"

// ReadMigrationInput asks for a VirtualMachineInstanceMigration, the VMI of the name VMIName, and that VMI's launcher
// pods.
type ReadMigrationInput struct {
	Migration Object `json:"migration"`
	VMIName   string `json:"vmiName,omitempty"` // "": the migration's spec has it
}

// ReadMigrationResult has all as they are now. Migration is nil where there is none of that UID, VMI where there is
// none of that name.
type ReadMigrationResult struct {
	Migration *MigrationObservation `json:"migration,omitempty"`
	VMI       *VMIObservation       `json:"vmi,omitempty"`
	// State is the VMI's status.migrationState; nil: it has none.
	State *MigrationState `json:"state,omitempty"`
	// Network has the meaning of ConfigureMigrationResult's. State lacks it, so a migration without memory, which does
	// not configure itself again, needs it. Only together with State.
	Network string `json:"network,omitempty"`
	FindPodResult
	// Failures counts the VMI's evacuations and workload updates that have failed since the last success, and
	// LastFailure is when the last one did. They are only read for an evacuation or a workload update.
	Failures    int       `json:"failures,omitempty"`
	LastFailure time.Time `json:"lastFailure,omitzero"`
}

// PatchMigrationInput writes what has changed of a VirtualMachineInstanceMigration, locked by UID and ResourceVersion:
// status (nil: leave), then finalizers (nil: leave) and annotations. The status is a subresource, so these are two
// requests to the API server.
type PatchMigrationInput struct {
	Migration       Object           `json:"migration"`
	ResourceVersion string           `json:"resourceVersion"`
	Status          *MigrationStatus `json:"status,omitempty"`
	Finalizers      *[]string        `json:"finalizers,omitempty"`
	// Owner is the VMI that becomes the migration's owner, once the finalizer is removed, where it has no other.
	Owner Object `json:"owner,omitzero"`
	// Stats, when not nil, are kept in annotations.
	Stats  *MigrationStats `json:"stats,omitempty"`
	Events []Event         `json:"events,omitempty"`
}

// PatchMigrationResult is the outcome of the patch.
type PatchMigrationResult = Patched[MigrationObservation]

// MigrationStatus is the part of a VirtualMachineInstanceMigration's status that its entity owns, whole.
type MigrationStatus struct {
	Phase      string          `json:"phase,omitempty"`
	PhaseTimes []PhaseTime     `json:"phaseTimes,omitempty"`
	Conditions []Condition     `json:"conditions,omitempty"`
	State      *MigrationState `json:"state,omitempty"`
}

// DeleteMigrationInput deletes a VirtualMachineInstanceMigration whose VMI is gone.
type DeleteMigrationInput struct {
	Migration Object `json:"migration"`
	VMIName   string `json:"vmiName"`
}

// DeleteMigrationResult has Absent set when there was nothing to delete. Refused is why nothing was deleted ("": it
// was): there is a VMI of that name, as it is in VMI.
type DeleteMigrationResult struct {
	Absent  bool            `json:"absent,omitempty"`
	Refused string          `json:"refused,omitempty"`
	VMI     *VMIObservation `json:"vmi,omitempty"`
}

// ConfigureMigrationInput asks how a VMI's guest is to be moved: the cluster's configuration, and the MigrationPolicy
// that matches best.
type ConfigureMigrationInput struct {
	VMI Object `json:"vmi"`
}

// ConfigureMigrationResult has the settings. Policy is the name of the MigrationPolicy ("": none matches).
type ConfigureMigrationResult struct {
	Policy        string                 `json:"policy,omitempty"`
	Configuration MigrationConfiguration `json:"configuration"`
	// Network is the NetworkAttachmentDefinition, as namespace/name, of the only network that the guest may be moved
	// over ("": the one that the nodes have).
	Network string `json:"network,omitempty"`
}

// CreateTargetPodInput asks for the launcher pod that a migration's guest is to be moved to. What its node has to offer
// beyond the VMI's requirements is read from the migration. Events SuccessfulCreate, or FailedCreate, on the migration.
type CreateTargetPodInput struct {
	Migration Object `json:"migration"`
	VMI       Object `json:"vmi"`
	Source    Object `json:"source"` // pod
	// PreferNode is the node that a person prefers ("": none).
	PreferNode string `json:"preferNode,omitempty"`
}

// CreateTargetPodResult has the pod as it was made or found. Refused is why there is none ("": there is): the current
// state of the migration or the VMI does not call for it. Quota is set when a resource quota refused it for now.
type CreateTargetPodResult struct {
	Pod     PodObservation `json:"pod"`
	Refused string         `json:"refused,omitempty"`
	Quota   string         `json:"quota,omitempty"`
}

// DeleteMigrationPodInput deletes a pod that a migration has left over: the target's after a failure, or the source's
// after a success. The pod on the node that the VMI's status names is never one of them, unless it has ended, or the
// VMI has. Event SuccessfulDelete on the migration.
type DeleteMigrationPodInput struct {
	Migration Object `json:"migration"`
	VMI       Object `json:"vmi"`
	Pod       Object `json:"pod"`
	// ResourceVersion is the pod's in which its end was observed ("": it was not). Its finalizer is then removed as
	// well.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Orphaned is set when the migration's workflow has no news: where the migration exists, the pod stays.
	Orphaned bool `json:"orphaned,omitempty"`
}

// DeleteMigrationPodResult has Absent set when there was nothing to delete, Released when the finalizer was removed,
// too. Refused is why the VMI, as it is now, prevented the deletion ("": it was deleted).
type DeleteMigrationPodResult struct {
	Absent   bool            `json:"absent,omitempty"`
	Released bool            `json:"released,omitempty"`
	Refused  string          `json:"refused,omitempty"`
	VMI      *VMIObservation `json:"vmi,omitempty"`
}

// MigrationOffer is the source's list of what must move, with the fingerprint of its key.
type MigrationOffer struct {
	// Fingerprint is of the key that identifies the source's node worker: see package internal/streams/migration.
	Fingerprint string `json:"fingerprint"`
	// Addresses are those that it dials from, as far as it knows: the target reserves connections for them. They prove
	// nothing.
	Addresses   []string        `json:"addresses,omitempty"`
	Disks       []MigrationDisk `json:"disks,omitempty"`
	Files       []MigrationFile `json:"files,omitempty"`
	Memory      int64           `json:"memory,omitempty"` // bytes
	MachineType string          `json:"machineType,omitempty"`
}

// MigrationDisk is one disk of a guest, as the source has it, or the image of its firmware.kernelBoot.
type MigrationDisk struct {
	Name   string `json:"name"`             // of its volume
	Target string `json:"target,omitempty"` // the guest's name for it, for example vda
	Size   int64  `json:"size,omitempty"`   // bytes
	// Copied is set when libvirt copies what the guest has written.
	Copied bool `json:"copied,omitempty"`
	// DirectIO is set when the file system can do without the host's page cache.
	DirectIO bool `json:"directIO,omitempty"`
	// ImageSHA256 is of the image beneath it, in hexadecimal digits ("": it has none).
	ImageSHA256 string `json:"imageSHA256,omitempty"`
}

// Bounds of what a migration carries beside libvirt's copy. Guests start with no larger image; with more of them they
// are not moved.
const (
	// MostMigrationFiles is far above the largest number that occurs: the images of CD-ROM drives.
	MostMigrationFiles = 16
	// LargestMigrationFile is in bytes. A Secret or ConfigMap has 1 MiB at most, and an image adds some KiB, and up to
	// 3 for each of its files.
	LargestMigrationFile = 4 << 20
)

// MigrationFile is a file that libvirt does not copy.
type MigrationFile struct {
	Name   string `json:"name"` // without a directory
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // in hexadecimal digits
}

// OfferMigrationInput asks the source's node for its offer. It fails with ErrorUnsuitable where the launcher cannot
// move its guest.
type OfferMigrationInput struct {
	Migration Object `json:"migration"`
	VMI       Object `json:"vmi"`
	Pod       Object `json:"pod"`
	// Expires is until when the key is valid.
	Expires time.Time `json:"expires"`
}

// PrepareTargetInput asks the target's node to open a port for the migration. It fails with ErrorUnsuitable where the
// target does not suit the guest.
type PrepareTargetInput struct {
	Migration Object         `json:"migration"`
	VMI       Object         `json:"vmi"`
	Pod       Object         `json:"pod"`
	Offer     MigrationOffer `json:"offer"`
	Expires   time.Time      `json:"expires"`
	// Network has the meaning of ConfigureMigrationResult's. The activity fails with ErrorUnsuitable where the node
	// does not have that network.
	Network string `json:"network,omitempty"`
}

// PreparedTarget has the address and the key by which the source finds the target.
type PreparedTarget struct {
	Address     string `json:"address"` // host:port
	Fingerprint string `json:"fingerprint"`
	Network     string `json:"network,omitempty"` // Pod or Migration
}

// MigrateDomainInput asks the source's node to move the guest. A repeated call follows the move that is under way. Its
// heartbeats are MigrationProgress, its result is a MigrationOutcome.
type MigrateDomainInput struct {
	Migration     Object                 `json:"migration"`
	VMI           Object                 `json:"vmi"`
	Pod           Object                 `json:"pod"`
	Target        PreparedTarget         `json:"target"`
	Configuration MigrationConfiguration `json:"configuration"`
	// CompletionSeconds is how long it may take: CompletionPerGiB times the size to copy; 0: no limit.
	CompletionSeconds int64 `json:"completionSeconds,omitempty"`
	// Network has the meaning of ConfigureMigrationResult's. A guest whose node does not have that network stays.
	Network string `json:"network,omitempty"`
}

// AbortMigrationInput asks the source's node to abort. The outcome is ActivityMigrateDomain's result, or has to be
// inspected.
type AbortMigrationInput struct {
	Migration Object `json:"migration"`
	VMI       Object `json:"vmi"`
	Pod       Object `json:"pod"`
	Why       string `json:"why,omitempty"`
}

// AbortMigrationResult has whether there was a migration to abort.
type AbortMigrationResult struct {
	Found bool `json:"found,omitempty"`
}

// AdjustMigrationInput changes a migration that is under way. Pause pauses the guest, so that the rest is copied
// without changing.
type AdjustMigrationInput struct {
	Migration Object `json:"migration"`
	VMI       Object `json:"vmi"`
	Pod       Object `json:"pod"`
	Pause     bool   `json:"pause,omitempty"`
	Bandwidth int64  `json:"bandwidth,omitempty"` // bytes a second; 0: leave
}

// FinishTargetInput resumes the guest at the target.
type FinishTargetInput struct {
	Migration Object         `json:"migration"`
	VMI       Object         `json:"vmi"`
	Pod       Object         `json:"pod"`
	Proof     MigrationProof `json:"proof"`
}

// FinishTargetResult has the domain as it is then.
type FinishTargetResult struct {
	Domain DomainObservation `json:"domain"`
}

// WithdrawTargetInput ends a target that has not resumed the guest.
type WithdrawTargetInput struct {
	Migration Object `json:"migration"`
	VMI       Object `json:"vmi"`
	Pod       Object `json:"pod"`
}

// WithdrawTargetResult has Refused set when the guest may run there ("": it does not, and will not).
type WithdrawTargetResult struct {
	Refused string `json:"refused,omitempty"`
}

// InspectMigrationInput asks a node for the state of a launcher and its migration.
type InspectMigrationInput struct {
	Migration Object `json:"migration"`
	VMI       Object `json:"vmi"`
	Pod       Object `json:"pod"`
}

// MigrationTruth has a launcher's report of itself and the migration, and its node worker's of the session.
type MigrationTruth struct {
	// Reached is set when the launcher answered; otherwise Why is the reason, and only Session and Outcome are set
	// besides.
	Reached bool   `json:"reached,omitempty"`
	Why     string `json:"why,omitempty"`
	// Session is set while the node worker carries the migration's streams.
	Session bool              `json:"session,omitempty"`
	Domain  DomainObservation `json:"domain,omitzero"`
	// Known is set when the launcher takes, or took, part in this migration.
	Known bool `json:"known,omitempty"`
	// UnderWay is set while the source copies, or the target receives. Phase is that of libvirt's job on the source.
	UnderWay bool   `json:"underWay,omitempty"`
	Phase    string `json:"phase,omitempty"`
	// Held is set while the guest is here, whole and paused; Granted once it may resume, and Resumed once it has, here.
	Held    bool `json:"held,omitempty"`
	Granted bool `json:"granted,omitempty"`
	Resumed bool `json:"resumed,omitempty"`
	// Outcome is the one at the source; nil: none yet.
	Outcome *MigrationOutcome `json:"outcome,omitempty"`
}

// ReadLimitsResult has the cluster's limits of migrations at a time. The activity has no input.
type ReadLimitsResult struct {
	Cluster  int `json:"cluster"`
	Outbound int `json:"outbound"` // per source node
}
