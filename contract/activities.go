package contract

// Activities on the control queue (package activities/cluster). All are idempotent: names derive from UIDs, creating an
// object that exists finds it, deleting one that is gone succeeds, and a patch is locked by UID and resourceVersion.
const (
	ActivityCreateVMI          = "CreateVMI"
	ActivityDeleteVMI          = "DeleteVMI"
	ActivityPatchVM            = "PatchVM"
	ActivityCreatePod          = "CreateLauncherPod"
	ActivityFindPod            = "FindLauncherPod"
	ActivityReadPodWarning     = "ReadPodWarning"
	ActivityDeletePod          = "DeleteLauncherPod"
	ActivityRemovePodFinalizer = "RemovePodFinalizer"
	ActivityMarkPod            = "MarkPodUnpaused"
	ActivityPatchVMI           = "PatchVMI"
	ActivityPatchNode          = "PatchNode"
	// ActivitySyncInstance applies changes of a VM to its running VMI.
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
	// the API server or the launcher refused the object's contents; not retryable
	ErrorInvalid      = "Invalid"
	ErrorInstanceLeft = "InstanceLeft" // the object to be released still has its instance; not retryable
	// quota, admission or RBAC refused, or a referenced object is missing; that may change, so the planner tries again
	// with a back-off, and shows the error meanwhile: no activity is retried for it
	ErrorForbidden   = "Forbidden"
	ErrorNoLauncher  = "LauncherNotFound"  // the pod's launcher cannot be reached; retryable
	ErrorNotBegun    = "NotBegun"          // the pod's launcher was not asked, and nothing was done; not retryable
	ErrorStartFailed = "DomainStartFailed" // libvirt refused to start the domain; not retryable
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
	Generation int64  `json:"generation,omitempty"` // the lowest that suffices
	Paused     bool   `json:"paused,omitempty"`
	Actor      string `json:"actor,omitempty"`
	// Revision is the ControllerRevision of the instance before, to be removed ("": not known).
	Revision string `json:"revision,omitempty"`
	// Transition names the start or restart, which the VMI keeps as AnnotationTransition.
	Transition string `json:"transition,omitempty"`
}

// CreateVMIResult has the VMI as it was made or found. Refused is why there is none ("": there is): the VM, as it is in
// VM, does not call for one now.
type CreateVMIResult struct {
	VMI     VMIObservation `json:"vmi"`
	Refused string         `json:"refused,omitempty"`
	VM      *VMObservation `json:"vm,omitempty"`
}

// DeleteVMIInput deletes the VMI of a VM. An empty VMI UID means the one that the VM controls. One without a controller
// stays where the VM is being deleted or gone. Event SuccessfulDelete on the VM.
type DeleteVMIInput struct {
	VM  Object `json:"vm"`
	VMI Object `json:"vmi"`
	// MadeBy names the start or restart that was cancelled ("": none was): the instance that it made is deleted, if its
	// guest has never run.
	MadeBy string `json:"madeBy,omitempty"`
}

// DeleteVMIResult has Absent set when there was nothing to delete, and Orphaned besides when the instance was released
// by its VM and stays. Refused is why nothing was deleted ("": it was): the current state, in VM and VMI, does not call
// for it.
type DeleteVMIResult struct {
	// UID is the UID of the instance that is being deleted.
	UID      string          `json:"uid,omitempty"`
	Absent   bool            `json:"absent,omitempty"`
	Orphaned bool            `json:"orphaned,omitempty"`
	Refused  string          `json:"refused,omitempty"`
	VM       *VMObservation  `json:"vm,omitempty"`
	VMI      *VMIObservation `json:"vmi,omitempty"`
}

// Patched is the outcome of a patch that is locked by UID and resourceVersion. Current is the object as it is now,
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
	// Actor is the user behind RunStrategy ("": the same as before).
	Actor string `json:"actor,omitempty"`
	// KeepRequests leaves status.stateChangeRequests as they are, whatever Status has. MoreRequests is how many there
	// are behind those that were observed: they are kept.
	KeepRequests bool `json:"keepRequests,omitempty"`
	MoreRequests int  `json:"moreRequests,omitempty"`
}

// PatchVMResult is the outcome of the patch.
type PatchVMResult = Patched[VMObservation]

// VMStatus is the part of a VirtualMachine's status that a VM entity owns, whole: an empty field is removed there.
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

// SyncInstanceInput asks to apply to a VMI the changes of its VM that are possible while it runs, and to find out
// whether the others need a restart.
type SyncInstanceInput struct {
	VM         Object `json:"vm"`
	VMI        Object `json:"vmi"`
	Generation int64  `json:"generation"` // of the VM, the lowest that suffices
}

// SyncInstanceResult is the outcome for the VM at Generation.
type SyncInstanceResult struct {
	Generation int64 `json:"generation"`
	// RestartRequired is the message of that condition; "": no restart is needed.
	RestartRequired string `json:"restartRequired,omitempty"`
	// Fields are the paths that differ, below the template's spec.
	Fields []string `json:"fields,omitempty"`
	// Patched are the paths of the VMI that were changed.
	Patched []string `json:"patched,omitempty"`
	// VMI is the instance after the patch; nil: it was not patched.
	VMI *VMIObservation `json:"vmi,omitempty"`
}

// CreatePodInput asks for the launcher pod of a VMI (and the Secret with its inline cloud-init data). Event
// SuccessfulCreate on the VMI.
type CreatePodInput struct {
	VMI Object `json:"vmi"`
}

// CreatePodResult has the pod as it was made or found. Refused is why the VMI, as it is now, has none ("": it has one).
type CreatePodResult struct {
	Pod     PodObservation  `json:"pod"`
	Refused string          `json:"refused,omitempty"`
	VMI     *VMIObservation `json:"vmi,omitempty"`
	// Migratable is nil where it was not determined.
	Migratable *Migratable `json:"migratable,omitempty"`
	// Awaits names what the VMI, which has no pod, waits for; nil: nothing.
	Awaits *Awaits       `json:"awaits,omitempty"`
	Claims []VolumeClaim `json:"claims,omitempty"`
	// Discarded is the UID of a pod that was made, and deleted again since another instance's was made before it.
	Discarded string `json:"discarded,omitempty"`
}

// FindPodInput asks for the launcher pods of a VMI by their labels.
type FindPodInput struct {
	VMI Object `json:"vmi"`
	// Known are pods that were the VMI's: one with that UID counts, whatever its labels are.
	Known []Object `json:"known,omitempty"`
}

// FindPodResult has the pods. The result is an error of type ErrorConflict where no pod is known, and another owner's
// pod has the name that is derived for one.
type FindPodResult struct {
	// Pod is the first of them; a worker of an earlier release takes it for the only one.
	Pod    *PodObservation  `json:"pod,omitempty"`
	Others []PodObservation `json:"others,omitempty"`
}

// ReadPodWarningInput asks what prevents the containers of a pod from starting.
type ReadPodWarningInput struct {
	Pod Object `json:"pod"`
}

// ReadPodWarningResult has the event about that, with its message cut to 512 bytes; the zero value: there is none.
type ReadPodWarningResult struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// FoundPods returns the result with these pods.
func FoundPods(pods ...PodObservation) FindPodResult {
	if len(pods) == 0 {
		return FindPodResult{}
	}
	return FindPodResult{Pod: &pods[0], Others: pods[1:]}
}

// Pods returns all pods.
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
	// Fence declares the pod's node off. Without it the VMI has to be deleted, or to have ended.
	Fence Fence `json:"fence,omitzero"`
	// Events are recorded on the VMI once the pod is being deleted.
	Events []Event `json:"events,omitempty"`
}

// DeletePodResult has Absent set when there was nothing to delete. Refused is why the current state of the VMI, or the
// node, prevented the deletion ("": it was deleted).
type DeletePodResult struct {
	Absent  bool            `json:"absent,omitempty"`
	Refused string          `json:"refused,omitempty"`
	VMI     *VMIObservation `json:"vmi,omitempty"`
	Node    *NodeState      `json:"node,omitempty"`
}

// RemovePodFinalizerInput removes virtflow's finalizer from a launcher pod that has ended.
type RemovePodFinalizerInput struct {
	Pod Object `json:"pod"`
	// ResourceVersion is the pod's in which its end was observed.
	ResourceVersion string `json:"resourceVersion"`
	// Fence declares the pod's node off. Without it the pod's kubelet has to have reported its end.
	Fence Fence `json:"fence,omitzero"`
}

// RemovePodFinalizerResult has Absent set when the pod is gone. Refused is why the current state of the pod, or the
// node, keeps its finalizer ("": it is removed).
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
	// LeftPods are the UIDs of pods that Status no longer lists.
	LeftPods    []string  `json:"leftPods,omitempty"`
	NodeLabel   *string   `json:"nodeLabel,omitempty"`
	TargetLabel *string   `json:"targetLabel,omitempty"`
	Finalizers  *[]string `json:"finalizers,omitempty"`
	// Evacuated is set when the guest has left the node that it was asked to leave: the request is removed.
	Evacuated bool `json:"evacuated,omitempty"`
	// Eviction is the pod that is marked by the same decision; nil: its mark stays as it is.
	Eviction *EvictionMark `json:"eviction,omitempty"`
	// Known are pods that are taken for gone although their end was not observed. Finalizers wait for them, too.
	Known  []Object `json:"known,omitempty"`
	Events []Event  `json:"events,omitempty"`
}

// EvictionMark names a guest's pod and the pod's node. The pod gets AnnotationEvictionInProgress if the VMI's
// evacuationNodeName is that node, and loses it otherwise.
type EvictionMark struct {
	Pod  Object `json:"pod"`
	Node string `json:"node"`
}

// PatchVMIResult is the outcome of the patch. Refused is why the finalizers stay, and nothing was written ("": it was):
// one of the VMI's pods, as it is now, has not ended.
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
	// Claims are the existing PersistentVolumeClaims that the status describes; not their UIDs and phases.
	Claims []VolumeClaim `json:"claims,omitempty"`
	// AgentConnected is set while the guest's agent answers.
	AgentConnected bool `json:"agentConnected,omitempty"`
	// Frozen is set while the guest's file systems are frozen.
	Frozen bool `json:"frozen,omitempty"`
	// Guest is the agent's last report; it stays when the agent disconnects.
	Guest *GuestInfo `json:"guest,omitempty"`
	// Migration is the last one since the guest runs, whole, and MigrationMethod how its disks would move.
	Migration       *MigrationState `json:"migration,omitempty"`
	MigrationMethod string          `json:"migrationMethod,omitempty"`
	// DomainUnknown leaves the fields as they are that only the node's worker knows: machine, interfaces and volumes.
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
// domain. A repeated call finds the domain running.
type StartDomainInput struct {
	VMI Object `json:"vmi"`
	Pod Object `json:"pod"`
	// Booted is set when the guest was started in this pod before. A launcher that does not know of it was started
	// again, since etcd was put back to a state with its pod: it ends, and its domain is reported as crashed. The guest
	// may have been moved since then, and is not booted a second time.
	Booted bool `json:"booted,omitempty"`
}

// StartDomainResult is the domain as the launcher reports it once it runs (or is found ended).
type StartDomainResult struct {
	Domain DomainObservation `json:"domain"`
}
