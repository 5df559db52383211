package contract

import (
	"maps"
	"time"
)

// Names that virtflow sets on Kubernetes objects, or that KubeVirt's clients expect.
const (
	// FinalizerVM is on VirtualMachines, and on the VirtualMachineInstances that they made.
	FinalizerVM = "kubevirt.io/virtualMachineControllerFinalize"
	// FinalizerVMI is on every VirtualMachineInstance; the mutating webhook adds it.
	FinalizerVMI = "kubevirt.io/foregroundDeleteVirtualMachine"
	// FinalizerPod keeps the record of a launcher pod until the kubelet reports its end.
	FinalizerPod = "virtflow.io/launcher"

	// AnnotationRequestedBy holds the user behind the last change of desired state; only the mutating webhook sets it.
	AnnotationRequestedBy = "virtflow.io/requested-by"
	// AnnotationVMGeneration on a VMI is the generation of the VM that it was made from.
	AnnotationVMGeneration = "kubevirt.io/vm-generation"
	// AnnotationTransition on a VMI names the start or restart that made it: its workflow ID, @ and its run ID.
	AnnotationTransition = "virtflow.io/transition"
	// AnnotationVMISpec on a launcher pod is the VMI that the launcher builds its domain from, without secrets.
	AnnotationVMISpec = "virtflow.io/vmi"
	// AnnotationAttachment begins the annotations of that VMI with the attachment, tap or managedTap, of each binding
	// plugin that the guest uses. The plugin's name follows.
	AnnotationAttachment = "attachment.virtflow.io/"
	// AnnotationDomain on a launcher pod is the name of its VMI.
	AnnotationDomain = "kubevirt.io/domain"

	// LabelNodeName on a VMI and its pod names the node that the guest runs on.
	LabelNodeName = "kubevirt.io/nodeName"
	// LabelOutdatedImage on a VMI marks a launcher whose image is not the one that new launchers get.
	LabelOutdatedImage = "kubevirt.io/outdatedLauncherImage"
	// LabelSchedulable on a node is "true" while VMs may be placed there.
	LabelSchedulable = "kubevirt.io/schedulable"
	// LabelCreatedBy on a launcher pod is the UID of its VMI.
	LabelCreatedBy = "kubevirt.io/created-by"
	// LabelMigration on a launcher pod is the UID of the VirtualMachineInstanceMigration that it was made for.
	LabelMigration = "kubevirt.io/migrationJobUID"
	// LabelLauncher is the key and LabelLauncherValue the value by which launcher pods are found.
	LabelLauncher      = "kubevirt.io"
	LabelLauncherValue = "virt-launcher"

	// ConditionUnpaused is the readiness gate of launcher pods.
	ConditionUnpaused = "kubevirt.io/virtual-machine-unpaused"
)

// RunStrategyContradictory is the run strategy of a VM that sets both spec.running and spec.runStrategy.
const RunStrategyContradictory = "Contradictory"

// Condition is a Kubernetes condition as VM and VMI status have them.
type Condition struct {
	Type               string     `json:"type"`
	Status             string     `json:"status"`
	Reason             string     `json:"reason,omitempty"`
	Message            string     `json:"message,omitempty"`
	LastTransitionTime *time.Time `json:"lastTransitionTime,omitempty"`
}

// Reasons of events and conditions about an object that could not be created, deleted or written.
const (
	ReasonFailedCreate = "FailedCreate"
	ReasonFailedDelete = "FailedDelete"
	ReasonFailedUpdate = "FailedUpdateError"
)

// StateChangeRequest is one element of a VM's status.stateChangeRequests.
type StateChangeRequest struct {
	Action string            `json:"action"` // Start or Stop
	UID    string            `json:"uid,omitempty"`
	Data   map[string]string `json:"data,omitempty"`
}

// Same reports whether both request the same change.
func (r StateChangeRequest) Same(other StateChangeRequest) bool {
	return r.Action == other.Action && r.UID == other.UID && maps.Equal(r.Data, other.Data)
}

// StartFailure is a VM's status.startFailure: how often it failed without ever running, and when it is tried again.
type StartFailure struct {
	ConsecutiveFailCount int        `json:"consecutiveFailCount,omitempty"`
	LastFailedVMIUID     string     `json:"lastFailedVMIUID,omitempty"`
	RetryAfter           *time.Time `json:"retryAfterTimestamp,omitempty"`
}

// VMObservation is crdwatch's observation of a VirtualMachine object, for its entity.
type VMObservation struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch int64 `json:"epoch,omitempty"`
	// Again is set when Temporal accepted an observation of the VM shortly before the connection to it was lost.
	Again      bool  `json:"again,omitempty"`
	Generation int64 `json:"generation,omitempty"`
	// Gone is set when the object no longer exists; only UID is set beside it.
	Gone              bool       `json:"gone,omitempty"`
	DeletionTimestamp *time.Time `json:"deletionTimestamp,omitempty"`
	Finalizers        []string   `json:"finalizers,omitempty"`
	// RunStrategy is the effective one: spec.running is folded in (true: Always, false or neither: Halted).
	RunStrategy string `json:"runStrategy,omitempty"`
	// LegacyRunning is set when the object uses spec.running instead of spec.runStrategy.
	LegacyRunning       bool                 `json:"legacyRunning,omitempty"`
	StateChangeRequests []StateChangeRequest `json:"stateChangeRequests,omitempty"`
	// MoreRequests is how many state change requests there are behind those listed.
	MoreRequests int `json:"moreRequests,omitempty"`
	// StatusRunStrategy and StartFailure are read back from status, so that losing Temporal's
	// history loses none of them.
	StatusRunStrategy string        `json:"statusRunStrategy,omitempty"`
	StartFailure      *StartFailure `json:"startFailure,omitempty"`
	// Actor is the user behind the last change of desired state ("" when not known).
	Actor string `json:"actor,omitempty"`
	// NeedsApproval lists the operations that need a person's approval: start, stop.
	NeedsApproval []string `json:"needsApproval,omitempty"`
	// Reported is set when an entity has written the status before.
	Reported bool `json:"reported,omitempty"`
	// Held is the status's condition Held while it is True, read back so that losing Temporal's history releases
	// nothing.
	Held *Condition `json:"held,omitempty"`
	// DataVolumes are those of its templates, whether they exist or not; nil: it has no templates, or they were not
	// looked up. DataVolumesVersion is the version up to which DataVolumes had been observed then.
	DataVolumes        []DataVolume `json:"dataVolumes,omitempty"`
	DataVolumesVersion string       `json:"dataVolumesVersion,omitempty"`
	// DeferDataVolumes is set when they are made at the VM's start, not before.
	DeferDataVolumes bool `json:"deferDataVolumes,omitempty"`
}

// VMIObservation is crdwatch's observation of a VirtualMachineInstance object, for its entity and that of the VM that
// owns it.
type VMIObservation struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch int64 `json:"epoch,omitempty"`
	// Again is set when Temporal accepted an observation of the VMI shortly before the connection to it was lost.
	Again             bool        `json:"again,omitempty"`
	Gone              bool        `json:"gone,omitempty"`
	DeletionTimestamp *time.Time  `json:"deletionTimestamp,omitempty"`
	Finalizers        []string    `json:"finalizers,omitempty"`
	OwnerUID          string      `json:"ownerUID,omitempty"` // UID of the VM that controls it
	Phase             string      `json:"phase,omitempty"`
	NodeName          string      `json:"nodeName,omitempty"`
	Conditions        []Condition `json:"conditions,omitempty"`
	// Evicted is set when its pod was deleted while its guest ran: status.reason is ReasonEvicted.
	Evicted bool `json:"evicted,omitempty"`
	// EverRan is set when status.phaseTransitionTimestamps has Running.
	EverRan bool `json:"everRan,omitempty"`
	// PhaseTimes are status.phaseTransitionTimestamps: read back so that losing Temporal's history keeps them.
	PhaseTimes []PhaseTime `json:"phaseTimes,omitempty"`
	// ActivePods are the UIDs in status.activePods.
	ActivePods   []string `json:"activePods,omitempty"`
	VMGeneration int64    `json:"vmGeneration,omitempty"`
	// Revision is the name of the ControllerRevision that it was made from.
	Revision           string `json:"revision,omitempty"`
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`
	Actor              string `json:"actor,omitempty"`
	// EvictionStrategy is spec.evictionStrategy, and EvacuationNode the node that the guest was asked to leave.
	EvictionStrategy string `json:"evictionStrategy,omitempty"`
	EvacuationNode   string `json:"evacuationNode,omitempty"`
	// Migration is status.migrationState, read back so that losing Temporal's history loses no move. Nil is none.
	Migration *MigrationState `json:"migration,omitempty"`
	// Claims are the PersistentVolumeClaims of its volumes, whether they exist or not; nil: they were not looked up.
	// ClaimsVersion is the version up to which they had been observed then.
	Claims        []VolumeClaim `json:"claims,omitempty"`
	ClaimsVersion string        `json:"claimsVersion,omitempty"`
}

// Ended reports whether the phase of an instance is final.
func (o VMIObservation) Ended() bool { return o.Phase == "Succeeded" || o.Phase == "Failed" }

// Begun reports whether an instance has had a pod that ran.
func (o VMIObservation) Begun() bool {
	return o.EverRan || o.Ended() || o.Phase == "Scheduled" || o.Phase == "Running"
}

// PhaseTime is one element of a VMI's status.phaseTransitionTimestamps.
type PhaseTime struct {
	Phase string    `json:"phase"`
	Time  time.Time `json:"time"`
}

// PodObservation is crdwatch's observation of a launcher pod, for the entity of its VMI.
type PodObservation struct {
	UID    string `json:"uid"`
	Name   string `json:"name,omitempty"`
	VMIUID string `json:"vmiUID,omitempty"` // the VMI that it was made for
	// Migration is the UID of the migration that it was made for ("": none), and MigrationName the migration's name.
	Migration       string `json:"migration,omitempty"`
	MigrationName   string `json:"migrationName,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch             int64      `json:"epoch,omitempty"`
	Gone              bool       `json:"gone,omitempty"`
	DeletionTimestamp *time.Time `json:"deletionTimestamp,omitempty"`
	Finalizers        []string   `json:"finalizers,omitempty"`
	Phase             string     `json:"phase,omitempty"`
	NodeName          string     `json:"nodeName,omitempty"`
	IPs               []string   `json:"ips,omitempty"`
	QOSClass          string     `json:"qosClass,omitempty"`
	LauncherImage     string     `json:"launcherImage,omitempty"`
	// Ready is the pod's Ready condition; nil while the kubelet has not written one.
	Ready *Condition `json:"ready,omitempty"`
	// Unschedulable is the pod's PodScheduled condition while it is False.
	Unschedulable *Condition `json:"unschedulable,omitempty"`
	// ComputeRunning is set when the compute container runs and every other container is ready.
	ComputeRunning bool `json:"computeRunning,omitempty"`
	// WaitingReason and WaitingMessage come from the first container that cannot start (ErrImagePull, …).
	WaitingReason  string `json:"waitingReason,omitempty"`
	WaitingMessage string `json:"waitingMessage,omitempty"`
	// ExitCode, ExitReason (the kubelet's, such as OOMKilled) and TerminationMessage are of the compute container that
	// has ended; the message is cut to 1 KiB.
	ExitCode           *int32 `json:"exitCode,omitempty"`
	ExitReason         string `json:"exitReason,omitempty"`
	TerminationMessage string `json:"terminationMessage,omitempty"`
	// Unpaused is the status of the readiness gate: "", True or False.
	Unpaused string `json:"unpaused,omitempty"`
	// PhaseUnconfirmed is set when the phase is final, but not because the kubelet observed the end of its containers:
	// the pod garbage collector marks pods of lost nodes as Failed. Its name in histories is older.
	PhaseUnconfirmed bool `json:"unproven,omitempty"`
	// GraceSeconds is the pod's own grace period, and DeletionGraceSeconds the one that it is being deleted with.
	GraceSeconds         *int64 `json:"graceSeconds,omitempty"`
	DeletionGraceSeconds *int64 `json:"deletionGraceSeconds,omitempty"`
}

// Ended reports whether nothing runs in a pod: its kubelet has reported its end, or it was deleted before it had a
// node, and no kubelet ever runs it.
func (o PodObservation) Ended() bool {
	final := o.Phase == "Succeeded" || o.Phase == "Failed"
	return final && !o.PhaseUnconfirmed || o.DeletionTimestamp != nil && o.NodeName == ""
}

// DomainState is the state of a libvirt domain as the launcher reports it.
type DomainState string

// States of a domain. DomainAbsent: libvirt has none.
const (
	DomainAbsent   DomainState = ""
	DomainRunning  DomainState = "Running"
	DomainPaused   DomainState = "Paused"
	DomainShutdown DomainState = "Shutdown" // the guest is shutting down
	DomainShutoff  DomainState = "Shutoff"
	DomainCrashed  DomainState = "Crashed"
)

// Reasons of DomainShutoff and DomainCrashed; they are the "reason" of a launcher's termination message too.
const (
	ReasonShutdown  = "Shutdown"  // the guest powered off, by itself or because it was asked to
	ReasonDestroyed = "Destroyed" // killed: the grace period ended, or it was 0
	ReasonCrashed   = "Crashed"   // the guest panicked or QEMU died
	ReasonFailed    = "Failed"    // the launcher could not start the domain
	ReasonNeverRan  = "NeverRan"  // the pod was ended before a domain was started
	// ReasonMigrated: the guest runs, or may run, in another pod and never again here.
	ReasonMigrated = "Migrated"
	// ReasonNotReceived: the pod was a migration's target, and its guest has never run here.
	ReasonNotReceived = "NotReceived"
)

// Reasons of DomainPaused, beside "": a user has paused it.
const (
	PausedIOError   = "IOError"   // a disk could not be read or written
	PausedNoSpace   = "NoSpace"   // the storage of a disk is full
	PausedMigration = "Migration" // until the other end of a migration has the guest
	PausedOther     = "Other"
)

// DomainObservation is a node worker's observation of the domain in one pod, for the entity of its VMI. Sequence grows
// with each change that one launcher reports; of two observations of one pod the higher one is newer.
type DomainObservation struct {
	PodUID         string      `json:"podUID"`
	Sequence       uint64      `json:"sequence"`
	State          DomainState `json:"state,omitempty"`
	Reason         string      `json:"reason,omitempty"`
	AgentConnected bool        `json:"agentConnected,omitempty"`
	// Frozen is set while the guest's file systems are frozen: its agent holds all writing to them.
	Frozen      bool              `json:"frozen,omitempty"`
	MachineType string            `json:"machineType,omitempty"`
	GuestMemory int64             `json:"guestMemory,omitempty"` // bytes
	Interfaces  []DomainInterface `json:"interfaces,omitempty"`
	Volumes     []DomainVolume    `json:"volumes,omitempty"`
	// Guest is the last report of the guest's agent; nil until it has answered once.
	Guest *GuestInfo `json:"guest,omitempty"`
	// AccessCredentials is nil while the state of the credentials that the agent sets is unknown, or it sets none.
	AccessCredentials *AccessCredentials `json:"accessCredentials,omitempty"`
	// Problem names the device or setting that the guest lacks until its next start ("": nothing), as its launcher
	// reports.
	Problem string `json:"problem,omitempty"`
	// Migration is the progress of the guest's move, from its source and at most each 10 s; nil: none is under way.
	Migration *MigrationProgress `json:"migration,omitempty"`
}

// DomainInterface is one network interface of a domain.
type DomainInterface struct {
	Name             string `json:"name"`
	MAC              string `json:"mac,omitempty"`
	PodInterfaceName string `json:"podInterfaceName,omitempty"`
	QueueCount       int32  `json:"queueCount,omitempty"`
	LinkState        string `json:"linkState,omitempty"`
	// Bridged is set when the guest itself has the pod's IPv4 address, and no IPv6.
	Bridged bool `json:"bridged,omitempty"`
}

// DomainVolume is one disk of a domain: the volume's name, its target (vda, sda, …) and its size in bytes when known.
type DomainVolume struct {
	Name   string `json:"name"`
	Target string `json:"target,omitempty"`
	Size   int64  `json:"size,omitempty"`
}

// TerminationMessage is the JSON that a launcher writes as its container's termination message.
type TerminationMessage struct {
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	Ran     bool   `json:"ran"` // a domain has been running in this pod
	// Paused is set, with ReasonMigrated, when the user had paused the guest: it stays paused at its target.
	Paused bool `json:"paused,omitempty"`
}

// NodeObservation is crdwatch's observation of a Node object and the node worker's pod there, for the node's entity.
type NodeObservation struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Epoch is crdwatch's at the time of sending: see FencingToken.
	Epoch         int64 `json:"epoch,omitempty"`
	Gone          bool  `json:"gone,omitempty"`
	Ready         bool  `json:"ready,omitempty"`
	Unschedulable bool  `json:"unschedulable,omitempty"`
	WorkerReady   bool  `json:"workerReady,omitempty"` // a node worker pod there is Ready
	// WorkerVersion is the version up to which the node workers' pods had been observed then; "": not known.
	WorkerVersion string `json:"workerVersion,omitempty"`

	OutOfService bool `json:"outOfService,omitempty"` // tainted node.kubernetes.io/out-of-service
	Drain        bool `json:"drain,omitempty"`        // has the drain taint
	// DrainTaint is the key of that taint, as a label has; "": TaintDrain.
	DrainTaint string            `json:"drainTaint,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"` // only those that virtflow owns
	// Capabilities is the CapabilityDigest of its labels.
	Capabilities string `json:"capabilities,omitempty"`
	// ObsoleteCPUModels are those that the KubeVirt object considers too old to offer, at most MostObsoleteModels; nil:
	// it names none, and KubeVirt's own list applies.
	ObsoleteCPUModels []string `json:"obsoleteCPUModels,omitempty"`
	// SettingsVersion is the version of the KubeVirt object that named DrainTaint and ObsoleteCPUModels, or up to
	// which that object was known not to exist; "": not known.
	SettingsVersion string `json:"settingsVersion,omitempty"`
}

// NodeReport is a node worker's report of its host, at its start and whenever the host changes.
type NodeReport struct {
	// Incarnation differs between two runs of a node worker; Sequence grows within one.
	Incarnation string `json:"incarnation"`
	Sequence    uint64 `json:"sequence"`
	KVM         bool   `json:"kvm,omitempty"`        // works, tried by running a virtual CPU
	KVMProblem  string `json:"kvmProblem,omitempty"` // why it does not work
	Arch        string `json:"arch,omitempty"`
	CPUVendor   string `json:"cpuVendor,omitempty"` // Intel, AMD, …
	CPUModel    string `json:"cpuModel,omitempty"`
	Version     string `json:"version,omitempty"` // of the node worker
	// Capabilities are those of the launcher's libvirt and QEMU there; nil where they are not known.
	Capabilities *HostCapabilities `json:"capabilities,omitempty"`
}

// RevisionPrefix begins the names of ControllerRevisions that keep the specification a VM was started with, as KubeVirt
// names them; the VM's UID and its generation follow.
const RevisionPrefix = "revision-start-vm-"
