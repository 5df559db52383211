package contract

// ReasonNoClaim is KubeVirt's reason for an instance whose PersistentVolumeClaim does not exist.
const ReasonNoClaim = "FailedPvcNotFound"

// ReasonClaimInUse is the reason for an instance whose disk is a device that another's guest has.
const ReasonClaimInUse = "PvcInUse"

// ReasonNoState is KubeVirt's reason for an instance whose claim with what its machine remembers cannot be used yet.
const ReasonNoState = "BackendStorageNotReady"

// ReasonDataVolumeFailed is KubeVirt's reason for what a DataVolume could not be filled with, and ReasonDataVolumesWait
// that of condition DataVolumesReady.
const (
	ReasonDataVolumeFailed = "FailedDataVolumeImport"
	ReasonDataVolumesWait  = "NotAllDVsReady"
)

// VolumeClaim is the PersistentVolumeClaim that a volume of an instance is, or lies on.
type VolumeClaim struct {
	Volume string `json:"volume"`
	Claim  string `json:"claim"`
	// UID is "" where the claim does not exist; nothing else is known of it then.
	UID string `json:"uid,omitempty"`
	// Phase is Pending, Bound or Lost.
	Phase       string   `json:"phase,omitempty"`
	AccessModes []string `json:"accessModes,omitempty"`
	VolumeMode  string   `json:"volumeMode,omitempty"`
	// Capacity and Requests are of storage, as Kubernetes writes them; "": none is said.
	Capacity     string `json:"capacity,omitempty"`
	Requests     string `json:"requests,omitempty"`
	Preallocated bool   `json:"preallocated,omitempty"`
	// DataVolume is the one that populates the claim, or is to make it; nil: there is none.
	DataVolume *DataVolume `json:"dataVolume,omitempty"`
}

// Unbound says that a claim is there, and has no volume of the cluster's yet, or no more.
func (c VolumeClaim) Unbound() bool { return c.UID != "" && c.Phase != "Bound" }

// Awaits is what an instance waits for before it gets a pod, in KubeVirt's words where it has some.
type Awaits struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Populating says that it is a claim that is being populated, or cannot be.
func (a Awaits) Populating() bool {
	return a.Reason == ReasonDataVolumesWait || a.Reason == ReasonDataVolumeFailed
}
