package contract

import "fmt"

// Phases of a DataVolume that decisions depend on; the others are steps of populating its PersistentVolumeClaim.
const (
	DataVolumeSucceeded            = "Succeeded"
	DataVolumePendingPopulation    = "PendingPopulation"
	DataVolumeWaitForFirstConsumer = "WaitForFirstConsumer"
	DataVolumeFailed               = "Failed"
)

// AnnotationBindImmediate on a DataVolume has CDI populate its PersistentVolumeClaim before a pod uses it.
const AnnotationBindImmediate = "cdi.kubevirt.io/storage.bind.immediate.requested"

// DataVolume has what is known of an object by which CDI populates a PersistentVolumeClaim of its name.
type DataVolume struct {
	Name string `json:"name"`
	// UID is "" where it does not exist; nothing but Populated is known of it then.
	UID string `json:"uid,omitempty"`
	// OwnerUID is its controller's UID.
	OwnerUID string `json:"ownerUID,omitempty"`
	Phase    string `json:"phase,omitempty"`
	// Ready is the status of its condition of that name. Bound is set when its PersistentVolumeClaim is bound.
	Ready string `json:"ready,omitempty"`
	Bound bool   `json:"bound,omitempty"`
	// Deleting is set while it is being deleted, with its PersistentVolumeClaim.
	Deleting bool `json:"deleting,omitempty"`
	// Populated is set when it does not exist, and a PersistentVolumeClaim of its name does which belongs to no
	// DataVolume: its maker has populated it, or CDI has, and has deleted its DataVolume since.
	Populated bool `json:"filled,omitempty"`
	// Error is the reason why CDI cannot populate it ("": nothing that CDI reports). CDI tries again.
	Error string `json:"error,omitempty"`
}

// Usable reports whether a pod may use the PersistentVolumeClaim: it is populated, or will be as soon as a pod uses it.
func (v DataVolume) Usable() bool {
	return v.UID == "" && v.Populated ||
		!v.Deleting && (v.Phase == DataVolumeSucceeded || v.Phase == DataVolumePendingPopulation)
}

// Failing reports whether CDI fails to populate the PersistentVolumeClaim.
func (v DataVolume) Failing() bool {
	return v.UID != "" && !v.Usable() && (v.Phase == DataVolumeFailed || v.Error != "")
}

// Provisioning reports whether the PersistentVolumeClaim is being populated, by KubeVirt's definition: one that waits
// for its first consumer is not.
func (v DataVolume) Provisioning() bool {
	return v.UID != "" && !v.Usable() && (v.Bound || v.Phase != DataVolumeWaitForFirstConsumer)
}

// Waits returns in words what is waited for ("": nothing).
func (v DataVolume) Waits() string {
	switch {
	case v.Usable():
		return ""
	case v.UID == "":
		return fmt.Sprintf("DataVolume %s does not exist", v.Name)
	case v.Deleting:
		return fmt.Sprintf("DataVolume %s is being deleted", v.Name)
	case v.Error != "":
		return fmt.Sprintf("DataVolume %s is not filled: %s", v.Name, v.Error)
	case v.Phase == DataVolumeFailed:
		return fmt.Sprintf("DataVolume %s failed to import disk image", v.Name)
	case v.Phase == DataVolumeWaitForFirstConsumer:
		return fmt.Sprintf("DataVolume %s waits for the first consumer of its claim, which a guest cannot be before "+
			"it is filled: annotate the DataVolume with %s, or use a StorageClass that binds at once or that CDI "+
			"populates", v.Name, AnnotationBindImmediate)
	case v.Phase == "":
		return fmt.Sprintf("DataVolume %s has not been looked at by CDI yet", v.Name)
	default:
		return fmt.Sprintf("DataVolume %s is not filled yet: it is %s", v.Name, v.Phase)
	}
}

// CreateDataVolumesInput asks for the DataVolumes of a VM's templates; event SuccessfulDataVolumeCreate or
// FailedDataVolumeCreate on the VM.
type CreateDataVolumesInput struct {
	VM Object `json:"vm"`
}

// CreateDataVolumesResult has a DataVolume for each of the VM's templates.
type CreateDataVolumesResult struct {
	DataVolumes []DataVolume `json:"dataVolumes,omitempty"`
}

// ActivityCreateDataVolumes creates the DataVolumes of a VM's templates.
const ActivityCreateDataVolumes = "CreateDataVolumes"

// AnnotationDeferDataVolumes on a VirtualMachine is "false" where its DataVolumes are made when it starts, not before.
const AnnotationDeferDataVolumes = "kubevirt.io/immediate-data-volume-creation"
