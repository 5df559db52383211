package contract

// Activities on the control queue (package activities/cluster). All are idempotent: names derive from UIDs, creating
// what is there finds it, deleting what is gone succeeds, and a patch is locked by UID and resourceVersion.
const (
	ActivityCreateVMI          = "CreateVMI"
	ActivityDeleteVMI          = "DeleteVMI"
	ActivityPatchVM            = "PatchVM"
	ActivityCreatePod          = "CreateLauncherPod"
	ActivityFindPod            = "FindLauncherPod"
	ActivityDeletePod          = "DeleteLauncherPod"
	ActivityRemovePodFinalizer = "RemovePodFinalizer"
	ActivityMarkPod            = "MarkPodUnpaused"
	ActivityPatchVMI           = "PatchVMI"
	ActivityPatchNode          = "PatchNode"
	// ActivitySyncInstance lets a running VMI follow its VM.
	ActivitySyncInstance = "SyncInstance"
)

// Activities on a node's queue (package activities/node).
const (
	ActivityStartDomain = "StartDomain"
)

// Types of the application errors that activities return.
const (
	ErrorGone     = "ObjectGone" // the object (of that UID) no longer exists; not retryable
	ErrorConflict = "NameTaken"  // another object that is not ours has the name; not retryable
	// the API server or the launcher refused the object for what it says; not retryable
	ErrorInvalid      = "Invalid"
	ErrorInstanceLeft = "InstanceLeft"      // what is to be released still has its instance; not retryable
	ErrorForbidden    = "Forbidden"         // quota, admission or RBAC refused; retryable, somebody may change that
	ErrorNoLauncher   = "LauncherNotFound"  // the pod's launcher cannot be reached; retryable
	ErrorNotBegun     = "NotBegun"          // the pod's launcher was not asked, and nothing was done; not retryable
	ErrorStartFailed  = "DomainStartFailed" // libvirt refused to start the domain; not retryable
)

// Object names one incarnation of a Kubernetes object.
type Object struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Event is a Kubernetes event on an object: Type is Normal or Warning.
type Event struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// CreateVMIInput asks for the VMI of a VM, with a ControllerRevision of the VM's spec; event SuccessfulCreate or
// FailedCreate on the VM.
type CreateVMIInput struct {
	VM         Object `json:"vm"`
	Generation int64  `json:"generation,omitempty"` // the lowest that will do
	Paused     bool   `json:"paused,omitempty"`
	Actor      string `json:"actor,omitempty"`
	// Revision is the ControllerRevision of the instance before, to be removed ("": not known).
	Revision string `json:"revision,omitempty"`
	// Transition names the start or restart, which the VMI keeps as AnnotationTransition.
	Transition string `json:"transition,omitempty"`
}

// CreateVMIResult is the VMI as it was made or found. Refused says why there is none ("": there is): the VM does not
// ask for one now, as it is in VM.
type CreateVMIResult struct {
	VMI     VMIObservation `json:"vmi"`
	Refused string         `json:"refused,omitempty"`
	VM      *VMObservation `json:"vm,omitempty"`
}

// DeleteVMIInput deletes the VMI of a VM. An empty VMI UID means: whichever the VM controls. One that nobody controls
// any more stays where the VM is going or gone. Event SuccessfulDelete on the VM.
type DeleteVMIInput struct {
	VM  Object `json:"vm"`
	VMI Object `json:"vmi"`
	// MadeBy names the start or restart that was cancelled ("": none was): what that very one made goes, if its guest
	// has never run.
	MadeBy string `json:"madeBy,omitempty"`
}

// DeleteVMIResult: Absent says that there was nothing to delete (any more); Orphaned says besides that what there is
// was taken from its VM, and stays. Refused says why nothing was deleted ("": it was): what is true now, in VM and VMI,
// does not ask for it.
type DeleteVMIResult struct {
	// UID is that of the instance that is being deleted.
	UID      string          `json:"uid,omitempty"`
	Absent   bool            `json:"absent,omitempty"`
	Orphaned bool            `json:"orphaned,omitempty"`
	Refused  string          `json:"refused,omitempty"`
	VM       *VMObservation  `json:"vm,omitempty"`
	VMI      *VMIObservation `json:"vmi,omitempty"`
}

// Patched says what became of a patch that is locked by UID and resourceVersion. Current is the object as it is now,
// after a write or a conflict.
type Patched[Observation any] struct {
	Written  bool         `json:"written,omitempty"`
	Conflict bool         `json:"conflict,omitempty"`
	Gone     bool         `json:"gone,omitempty"`
	Current  *Observation `json:"current,omitempty"`
}

// PatchVMInput writes what has changed of a VM: status (nil: leave), finalizers (nil: leave), run strategy ("": leave).
// Lock: UID and ResourceVersion. A patch of metadata or spec and one of status are two requests to the API server.
type PatchVMInput struct {
	VM              Object    `json:"vm"`
	ResourceVersion string    `json:"resourceVersion"`
	Status          *VMStatus `json:"status,omitempty"`
	Finalizers      *[]string `json:"finalizers,omitempty"`
	RunStrategy     string    `json:"runStrategy,omitempty"`
	LegacyRunning   bool      `json:"legacyRunning,omitempty"` // RunStrategy is to be written as spec.running
	// Actor is the user behind RunStrategy ("": nobody else than before).
	Actor string `json:"actor,omitempty"`
	// KeepRequests leaves status.stateChangeRequests as they are, whatever Status says. MoreRequests says how many
	// there are behind those that were observed: they are kept.
	KeepRequests bool `json:"keepRequests,omitempty"`
	MoreRequests int  `json:"moreRequests,omitempty"`
}

// PatchVMResult says what became of the patch.
type PatchVMResult = Patched[VMObservation]

// VMStatus is the part of a VirtualMachine's status that a VM entity owns, whole: what is empty here is removed there.
type VMStatus struct {
	Created             bool                 `json:"created,omitempty"`
	Ready               bool                 `json:"ready,omitempty"`
	PrintableStatus     string               `json:"printableStatus,omitempty"`
	RunStrategy         string               `json:"runStrategy,omitempty"`
	DesiredGeneration   int64                `json:"desiredGeneration,omitempty"`
	ObservedGeneration  int64                `json:"observedGeneration,omitempty"`
	StartFailure        *StartFailure        `json:"startFailure,omitempty"`
	StateChangeRequests []StateChangeRequest `json:"stateChangeRequests,omitempty"`
	Conditions          []Condition          `json:"conditions,omitempty"`
}

// SyncInstanceInput asks to bring what can change live from a VM into its VMI, and to find out whether the rest needs a
// restart.
type SyncInstanceInput struct {
	VM         Object `json:"vm"`
	VMI        Object `json:"vmi"`
	Generation int64  `json:"generation"` // of the VM, the lowest that will do
}

// SyncInstanceResult is the outcome for the VM at Generation.
type SyncInstanceResult struct {
	Generation int64 `json:"generation"`
	// RestartRequired is the message of that condition, "" when no restart is needed. Fields are the paths that differ,
	// below the template's spec, and Patched those of the VMI that were changed.
	RestartRequired string   `json:"restartRequired,omitempty"`
	Fields          []string `json:"fields,omitempty"`
	Patched         []string `json:"patched,omitempty"`
	// VMI is the instance as it is now, when it was patched.
	VMI *VMIObservation `json:"vmi,omitempty"`
}

// CreatePodInput asks for the launcher pod of a VMI (and the Secret with its inline cloud-init data). Event
// SuccessfulCreate on the VMI.
type CreatePodInput struct {
	VMI Object `json:"vmi"`
}

// CreatePodResult is the pod as it was made or found. Refused says why there is none ("": there is), as the VMI is now.
type CreatePodResult struct {
	Pod     PodObservation  `json:"pod"`
	Refused string          `json:"refused,omitempty"`
	VMI     *VMIObservation `json:"vmi,omitempty"`
	// Migratable is nil where it was not asked.
	Migratable *Migratable `json:"migratable,omitempty"`
	// Awaits says what the VMI waits for: there is no pod; nil: for nothing.
	Awaits *Awaits       `json:"awaits,omitempty"`
	Claims []VolumeClaim `json:"claims,omitempty"`
	// Discarded is the UID of a pod that was made, and deleted again since another instance's was made before it.
	Discarded string `json:"discarded,omitempty"`
}

// FindPodInput asks for the launcher pods of a VMI by their labels.
type FindPodInput struct {
	VMI Object `json:"vmi"`
	// Known are pods that were the VMI's: one of that UID is, whatever it says of itself.
	Known []Object `json:"known,omitempty"`
}

// FindPodResult has the pods. Where none is known, and the name that is derived for one is taken by a pod that says it
// is somebody else's, the answer is an error of type ErrorConflict.
type FindPodResult struct {
	// Pod is the first of them, which a worker of an earlier release takes for the only one.
	Pod    *PodObservation  `json:"pod,omitempty"`
	Others []PodObservation `json:"others,omitempty"`
}

// FoundPods is the result that has these.
func FoundPods(pods ...PodObservation) FindPodResult {
	if len(pods) == 0 {
		return FindPodResult{}
	}
	return FindPodResult{Pod: &pods[0], Others: pods[1:]}
}

// Pods are all of them.
func (r FindPodResult) Pods() []PodObservation {
	if r.Pod == nil {
		return nil
	}
	return append([]PodObservation{*r.Pod}, r.Others...)
}

// DeletePodInput deletes a launcher pod with its own grace period, or with Grace seconds. Event SuccessfulDelete on the
// VMI.
type DeletePodInput struct {
	VMI   Object `json:"vmi"`
	Pod   Object `json:"pod"`
	Grace *int64 `json:"grace,omitempty"`
	// Fence calls the pod's node off. Without it the VMI has to go, or to have ended.
	Fence Fence `json:"fence,omitzero"`
	// Events are recorded on the VMI once the pod is being deleted.
	Events []Event `json:"events,omitempty"`
}

// DeletePodResult: Absent says that there was nothing to delete (any more). Refused says why nothing was deleted ("":
// it was), as the VMI, or the node, is now.
type DeletePodResult struct {
	Absent  bool            `json:"absent,omitempty"`
	Refused string          `json:"refused,omitempty"`
	VMI     *VMIObservation `json:"vmi,omitempty"`
	Node    *NodeState      `json:"node,omitempty"`
}

// RemovePodFinalizerInput removes virtflow's finalizer from a launcher pod that has ended.
type RemovePodFinalizerInput struct {
	Pod Object `json:"pod"`
	// ResourceVersion is that of the pod in which its end was seen.
	ResourceVersion string `json:"resourceVersion"`
	// Fence calls the pod's node off. Without it its kubelet has to have said that it ended.
	Fence Fence `json:"fence,omitzero"`
}

// RemovePodFinalizerResult: Absent says that the pod is gone. Refused says why its finalizer stays ("": it is removed),
// as the pod, or the node, is now.
type RemovePodFinalizerResult struct {
	Absent  bool            `json:"absent,omitempty"`
	Refused string          `json:"refused,omitempty"`
	Pod     *PodObservation `json:"pod,omitempty"`
	Node    *NodeState      `json:"node,omitempty"`
}

// MarkPodInput writes the readiness gate of a launcher pod.
type MarkPodInput struct {
	Pod    Object `json:"pod"`
	Paused bool   `json:"paused,omitempty"`
}

// PatchVMIInput writes what has changed of a VMI, in one patch locked by UID and ResourceVersion: status (nil: leave),
// node label and LabelMigrationTarget (nil: leave, "": remove), finalizers (nil: leave).
type PatchVMIInput struct {
	VMI             Object     `json:"vmi"`
	ResourceVersion string     `json:"resourceVersion"`
	Status          *VMIStatus `json:"status,omitempty"`
	// LeftPods are the UIDs of those that Status lists no more.
	LeftPods    []string  `json:"leftPods,omitempty"`
	NodeLabel   *string   `json:"nodeLabel,omitempty"`
	TargetLabel *string   `json:"targetLabel,omitempty"`
	Finalizers  *[]string `json:"finalizers,omitempty"`
	// Evacuated says that the guest has left the node that it was asked to leave: nobody asks any more.
	Evacuated bool `json:"evacuated,omitempty"`
	// Known are pods that are thought to be gone although nobody saw to their end. Finalizers wait for them, too.
	Known  []Object `json:"known,omitempty"`
	Events []Event  `json:"events,omitempty"`
}

// PatchVMIResult says what became of the patch. Refused says why the finalizers stay, and nothing was written ("": it
// was): one of the VMI's pods, as it is now, has not ended.
type PatchVMIResult struct {
	Patched[VMIObservation]
	Refused string          `json:"refused,omitempty"`
	Pod     *PodObservation `json:"pod,omitempty"`
	// Migratable is nil where nothing was written.
	Migratable *Migratable `json:"migratable,omitempty"`
}

// VMIStatus is the part of a VirtualMachineInstance's status that a VMI entity owns, whole.
type VMIStatus struct {
	Phase         string            `json:"phase,omitempty"`
	Reason        string            `json:"reason,omitempty"`
	NodeName      string            `json:"nodeName,omitempty"`
	Conditions    []Condition       `json:"conditions,omitempty"`
	PhaseTimes    []PhaseTime       `json:"phaseTimes,omitempty"`
	ActivePods    map[string]string `json:"activePods,omitempty"` // pod UID → node
	QOSClass      string            `json:"qosClass,omitempty"`
	LauncherImage string            `json:"launcherImage,omitempty"`
	MachineType   string            `json:"machineType,omitempty"`
	GuestMemory   int64             `json:"guestMemory,omitempty"` // bytes
	IPs           []string          `json:"ips,omitempty"`         // of the primary interface
	Interfaces    []DomainInterface `json:"interfaces,omitempty"`
	Volumes       []DomainVolume    `json:"volumes,omitempty"`
	// Claims are those that exist, of which the status says what they are; not their UIDs and phases.
	Claims []VolumeClaim `json:"claims,omitempty"`
	// AgentConnected says that the guest's agent answers.
	AgentConnected bool `json:"agentConnected,omitempty"`
	// Frozen says that the guest's file systems are.
	Frozen bool `json:"frozen,omitempty"`
	// Guest is what it said last; it stays when the agent goes.
	Guest *GuestInfo `json:"guest,omitempty"`
	// Migration is the last one since the guest runs, whole, and MigrationMethod how its disks would move.
	Migration       *MigrationState `json:"migration,omitempty"`
	MigrationMethod string          `json:"migrationMethod,omitempty"`
	// DomainUnknown leaves what only the node's worker knows as it stands: machine, interfaces and volumes.
	DomainUnknown bool `json:"domainUnknown,omitempty"`
}

// PatchNodeInput sets labels of a node (a nil value removes one).
type PatchNodeInput struct {
	Name   string             `json:"name"`
	UID    string             `json:"uid"`
	Labels map[string]*string `json:"labels,omitempty"`
	Events []Event            `json:"events,omitempty"` // recorded on the Node once it is written
	// Capabilities, when not nil, are to be all capability labels that the node has (see IsCapability); others of those
	// are removed.
	Capabilities map[string]string `json:"capabilities,omitempty"`
}

// StartDomainInput asks a node's worker to prepare the network of a launcher's pod and to have the launcher start its
// domain. Doing it again finds the domain running.
type StartDomainInput struct {
	VMI Object `json:"vmi"`
	Pod Object `json:"pod"`
	// Booted says that the guest was started in this pod before. A launcher that does not know of it was started anew:
	// etcd was put back to when its pod was there. It ends, and its domain is answered as crashed. The guest may have
	// been moved since then, and is not booted a second time.
	Booted bool `json:"booted,omitempty"`
}

// StartDomainResult is the domain as the launcher reports it once it runs (or is found ended).
type StartDomainResult struct {
	Domain DomainObservation `json:"domain"`
}
