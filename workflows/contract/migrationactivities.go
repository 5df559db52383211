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
	ActivityOfferMigration   = "OfferMigration"   // source: what is to be moved, and by which key
	ActivityPrepareTarget    = "PrepareTarget"    // target: opens the port
	ActivityMigrateDomain    = "MigrateDomain"    // source: moves the guest, or follows what does
	ActivityAbortMigration   = "AbortMigration"   // source
	ActivityAdjustMigration  = "AdjustMigration"  // source
	ActivityFinishTarget     = "FinishTarget"     // target: lets the guest go on, with the source's proof
	ActivityWithdrawTarget   = "WithdrawTarget"   // target: ends its launcher and closes the port
	ActivityInspectMigration = "InspectMigration" // either: reads what is true
)

// ErrorUnsuitable is the type of the error of a source that cannot send its guest, or a target that does not suit it;
// not retryable.
const ErrorUnsuitable = "Unsuitable"

// ReadMigrationInput asks for a VirtualMachineInstanceMigration, the VMI of the name VMIName, and that VMI's launcher
// pods.
type ReadMigrationInput struct {
	Migration Object `json:"migration"`
	VMIName   string `json:"vmiName,omitempty"` // "": the migration says it
}

// ReadMigrationResult has all as they are now. Migration is nil where there is none of that UID, VMI where there is
// none of that name.
type ReadMigrationResult struct {
	Migration *MigrationObservation `json:"migration,omitempty"`
	VMI       *VMIObservation       `json:"vmi,omitempty"`
	// State is the VMI's status.migrationState; nil: it has none.
	State *MigrationState `json:"state,omitempty"`
	FindPodResult
	// Failures counts the VMI's evacuations and workload updates that have failed since one succeeded, and LastFailure
	// is when the last of them did. They are only read for a migration that is one itself.
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
	// Owner is the VMI that the migration goes with, once its finalizer has gone, where it has no other owner.
	Owner Object `json:"owner,omitzero"`
	// Stats, when not nil, are kept in annotations.
	Stats  *MigrationStats `json:"stats,omitempty"`
	Events []Event         `json:"events,omitempty"`
}

// PatchMigrationResult says what became of the patch.
type PatchMigrationResult = Patched[MigrationObservation]

// MigrationStatus is the part of a VirtualMachineInstanceMigration's status that its entity owns, whole.
type MigrationStatus struct {
	Phase      string          `json:"phase,omitempty"`
	PhaseTimes []PhaseTime     `json:"phaseTimes,omitempty"`
	Conditions []Condition     `json:"conditions,omitempty"`
	State      *MigrationState `json:"state,omitempty"`
}

// DeleteMigrationInput deletes a VirtualMachineInstanceMigration of whose VMI there is nothing any more.
type DeleteMigrationInput struct {
	Migration Object `json:"migration"`
	VMIName   string `json:"vmiName"`
}

// DeleteMigrationResult: Absent says that there was nothing to delete (any more). Refused says why nothing was deleted
// ("": it was): there is a VMI of that name, as it is in VMI.
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

// ConfigureMigrationResult is that. Policy is the name of the MigrationPolicy ("": none matches).
type ConfigureMigrationResult struct {
	Policy        string                 `json:"policy,omitempty"`
	Configuration MigrationConfiguration `json:"configuration"`
}

// CreateTargetPodInput asks for the launcher pod that a migration's guest is to be moved to. What its node has to have
// beside what the VMI asks for is read from the migration. Events SuccessfulCreate, or FailedCreate, on the migration.
type CreateTargetPodInput struct {
	Migration Object `json:"migration"`
	VMI       Object `json:"vmi"`
	Source    Object `json:"source"` // pod
	// PreferNode is the node that a person would have ("": none).
	PreferNode string `json:"preferNode,omitempty"`
}

// CreateTargetPodResult is the pod as it was made or found. Refused says why there is none ("": there is): what is true
// now, of the migration or the VMI, does not ask for it. Quota says that a resource quota refused it for now.
type CreateTargetPodResult struct {
	Pod     PodObservation `json:"pod"`
	Refused string         `json:"refused,omitempty"`
	Quota   string         `json:"quota,omitempty"`
}

// DeleteMigrationPodInput deletes a pod that a migration has left over: the target's of one that failed, or the
// source's of one that was done. The pod on the node that the VMI's status names is never one of them, unless it has
// ended, or the VMI has. Event SuccessfulDelete on the migration.
type DeleteMigrationPodInput struct {
	Migration Object `json:"migration"`
	VMI       Object `json:"vmi"`
	Pod       Object `json:"pod"`
	// ResourceVersion is that of the pod in which its end was seen ("": it was not). Its finalizer then goes with it.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Orphaned says that nothing is heard of the migration: where it is there, the pod stays.
	Orphaned bool `json:"orphaned,omitempty"`
}

// DeleteMigrationPodResult: Absent says that there was nothing to delete (any more), Released that the finalizer was
// removed, too. Refused says why nothing was deleted ("": it was), as the VMI is now.
type DeleteMigrationPodResult struct {
	Absent   bool            `json:"absent,omitempty"`
	Released bool            `json:"released,omitempty"`
	Refused  string          `json:"refused,omitempty"`
	VMI      *VMIObservation `json:"vmi,omitempty"`
}

// MigrationOffer is what a source's node says of a guest that is to leave it.
type MigrationOffer struct {
	// Fingerprint of the key by which the source's node worker will be known: see package internal/streams/migration.
	Fingerprint string          `json:"fingerprint"`
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
	// Copied: libvirt copies what the guest has written.
	Copied bool `json:"copied,omitempty"`
	// DirectIO: the file system can do without the host's page cache.
	DirectIO bool `json:"directIO,omitempty"`
	// ImageSHA256 of the image beneath it, in hexadecimal digits ("": it has none).
	ImageSHA256 string `json:"imageSHA256,omitempty"`
}

// Bounds of what a migration carries beside what libvirt copies. Guests start with no larger image, and with more of
// them are not moved.
const (
	// MostMigrationFiles is far above what there is: the images of CD-ROM drives.
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
	// Expires is until when the key is good.
	Expires time.Time `json:"expires"`
}

// PrepareTargetInput asks the target's node to let the migration in. It fails with ErrorUnsuitable where the target
// does not suit the guest.
type PrepareTargetInput struct {
	Migration Object         `json:"migration"`
	VMI       Object         `json:"vmi"`
	Pod       Object         `json:"pod"`
	Offer     MigrationOffer `json:"offer"`
	Expires   time.Time      `json:"expires"`
}

// PreparedTarget is where and by what key the source finds the target.
type PreparedTarget struct {
	Address     string `json:"address"` // host:port
	Fingerprint string `json:"fingerprint"`
	Network     string `json:"network,omitempty"` // Pod or Migration
}

// MigrateDomainInput asks the source's node to move the guest. Asked again it follows what is under way. Its heartbeats
// are MigrationProgress, its result is a MigrationOutcome.
type MigrateDomainInput struct {
	Migration     Object                 `json:"migration"`
	VMI           Object                 `json:"vmi"`
	Pod           Object                 `json:"pod"`
	Target        PreparedTarget         `json:"target"`
	Configuration MigrationConfiguration `json:"configuration"`
	// CompletionSeconds that it may take: CompletionPerGiB times what there is to copy; 0: no limit.
	CompletionSeconds int64 `json:"completionSeconds,omitempty"`
}

// AbortMigrationInput asks the source's node to abort. How it went is the result of ActivityMigrateDomain, or is to be
// read.
type AbortMigrationInput struct {
	Migration Object `json:"migration"`
	VMI       Object `json:"vmi"`
	Pod       Object `json:"pod"`
	Why       string `json:"why,omitempty"`
}

// AbortMigrationResult says whether there was something to abort.
type AbortMigrationResult struct {
	Found bool `json:"found,omitempty"`
}

// AdjustMigrationInput changes a migration that is under way. Pause halts the guest so that the rest is copied without
// it changing.
type AdjustMigrationInput struct {
	Migration Object `json:"migration"`
	VMI       Object `json:"vmi"`
	Pod       Object `json:"pod"`
	Pause     bool   `json:"pause,omitempty"`
	Bandwidth int64  `json:"bandwidth,omitempty"` // bytes a second; 0: leave
}

// FinishTargetInput lets the guest go on at the target.
type FinishTargetInput struct {
	Migration Object         `json:"migration"`
	VMI       Object         `json:"vmi"`
	Pod       Object         `json:"pod"`
	Proof     MigrationProof `json:"proof"`
}

// FinishTargetResult is the domain as it then is.
type FinishTargetResult struct {
	Domain DomainObservation `json:"domain"`
}

// WithdrawTargetInput ends a target whose guest has not gone on there.
type WithdrawTargetInput struct {
	Migration Object `json:"migration"`
	VMI       Object `json:"vmi"`
	Pod       Object `json:"pod"`
}

// WithdrawTargetResult: Refused says that the guest may run there ("": it does not, and will not).
type WithdrawTargetResult struct {
	Refused string `json:"refused,omitempty"`
}

// InspectMigrationInput asks a node what is true of a launcher and its migration.
type InspectMigrationInput struct {
	Migration Object `json:"migration"`
	VMI       Object `json:"vmi"`
	Pod       Object `json:"pod"`
}

// MigrationTruth is what a launcher says of itself and the migration, and its node worker of the session.
type MigrationTruth struct {
	// Reached says that the launcher answered; otherwise Why it did not, and nothing else is set but Session and
	// Outcome.
	Reached bool   `json:"reached,omitempty"`
	Why     string `json:"why,omitempty"`
	// Session says that the node worker carries the migration's streams.
	Session bool              `json:"session,omitempty"`
	Domain  DomainObservation `json:"domain,omitzero"`
	// Known says that the launcher takes, or took, part in this migration.
	Known bool `json:"known,omitempty"`
	// UnderWay: the source copies, or the target receives. Phase is of libvirt's job on the source.
	UnderWay bool   `json:"underWay,omitempty"`
	Phase    string `json:"phase,omitempty"`
	// Held: the guest is here, whole and paused. Granted: it may go on. Resumed: it goes on here.
	Held    bool `json:"held,omitempty"`
	Granted bool `json:"granted,omitempty"`
	Resumed bool `json:"resumed,omitempty"`
	// Outcome is how it ended at the source; nil: not yet.
	Outcome *MigrationOutcome `json:"outcome,omitempty"`
}

// ReadLimitsResult are the cluster's limits of migrations at a time. The activity takes nothing.
type ReadLimitsResult struct {
	Cluster  int `json:"cluster"`
	Outbound int `json:"outbound"` // per source node
}
