package contract

// ReasonNoClaim is KubeVirt's reason for an instance whose PersistentVolumeClaim does not exist.
const ReasonNoClaim = "FailedPvcNotFound"

// ReasonClaimInUse is the reason for an instance whose disk is a block device that another instance's guest uses.
const ReasonClaimInUse = "PvcInUse"

// ReasonNoState is KubeVirt's reason for an instance whose PersistentVolumeClaim with its TPM and EFI state is not
// usable yet.
const ReasonNoState = "BackendStorageNotReady"

// ReasonDataVolumeFailed is KubeVirt's reason for a DataVolume that could not be populated, and ReasonDataVolumesWait
// that of condition DataVolumesReady.
const (
	ReasonDataVolumeFailed = "FailedDataVolumeImport"
	ReasonDataVolumesWait  = "NotAllDVsReady"
)

// VolumeClaim is the PersistentVolumeClaim of an instance's volume.
type VolumeClaim struct {
	Volume string `json:"volume"`
	Claim  string `json:"claim"`
	// UID is "" where the PersistentVolumeClaim does not exist; nothing else is known of it then.
	UID string `json:"uid,omitempty"`
	// Phase is Pending, Bound or Lost.
	Phase       string   `json:"phase,omitempty"`
	AccessModes []string `json:"accessModes,omitempty"`
	VolumeMode  string   `json:"volumeMode,omitempty"`
	// Capacity and Requests are of storage, as Kubernetes writes them; "": not set.
	Capacity     string `json:"capacity,omitempty"`
	Requests     string `json:"requests,omitempty"`
	Preallocated bool   `json:"preallocated,omitempty"`
	// DataVolume populates the PersistentVolumeClaim, or is to create it; nil: there is none.
	DataVolume *DataVolume `json:"dataVolume,omitempty"`
}

// Unbound reports whether the PersistentVolumeClaim exists without a PersistentVolume, not yet or no longer.
func (c VolumeClaim) Unbound() bool { return c.UID != "" && c.Phase != "Bound" }

// Awaits names what an instance waits for before it gets a pod, in KubeVirt's words where it has some.
type Awaits struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Populating reports whether a PersistentVolumeClaim is awaited that is being populated, or cannot be.
func (a Awaits) Populating() bool {
	return a.Reason == ReasonDataVolumesWait || a.Reason == ReasonDataVolumeFailed
}
