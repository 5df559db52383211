package contract

import "fmt"

// Phases of a DataVolume that something is decided by; the others are steps of populating its claim.
const (
	DataVolumeSucceeded            = "Succeeded"
	DataVolumePendingPopulation    = "PendingPopulation"
	DataVolumeWaitForFirstConsumer = "WaitForFirstConsumer"
	DataVolumeFailed               = "Failed"
)

// AnnotationBindImmediate on a DataVolume has CDI populate its claim before anybody uses it.
const AnnotationBindImmediate = "cdi.kubevirt.io/storage.bind.immediate.requested"

// DataVolume is what is known of an object by which CDI populates a claim of its name.
type DataVolume struct {
	Name string `json:"name"`
	// UID is "" where it does not exist; nothing but Populated is known of it then.
	UID string `json:"uid,omitempty"`
	// OwnerUID is that of its controller.
	OwnerUID string `json:"ownerUID,omitempty"`
	Phase    string `json:"phase,omitempty"`
	// Ready is the status of its condition of that name, and Bound says that its claim is.
	Ready string `json:"ready,omitempty"`
	Bound bool   `json:"bound,omitempty"`
	// Deleting says that it is going away, with its claim.
	Deleting bool `json:"deleting,omitempty"`
	// Populated says that it does not exist, and that a claim of its name does which belongs to no DataVolume: whoever
	// has made that has populated it, or CDI has, and has deleted its DataVolume since.
	Populated bool `json:"filled,omitempty"`
	// Error is what CDI says keeps it from being populated ("": nothing, or nothing is said). CDI tries again.
	Error string `json:"error,omitempty"`
}

// Usable says that a pod may have the claim: it is populated, or is as soon as a pod is to have it.
func (v DataVolume) Usable() bool {
	return v.UID == "" && v.Populated ||
		!v.Deleting && (v.Phase == DataVolumeSucceeded || v.Phase == DataVolumePendingPopulation)
}

// Failing says that the claim cannot be populated, as it seems.
func (v DataVolume) Failing() bool {
	return v.UID != "" && !v.Usable() && (v.Phase == DataVolumeFailed || v.Error != "")
}

// Provisioning says that the claim is being populated, as KubeVirt has it: one that waits for its first consumer is
// not.
func (v DataVolume) Provisioning() bool {
	return v.UID != "" && !v.Usable() && (v.Bound || v.Phase != DataVolumeWaitForFirstConsumer)
}

// Waits says in words what is waited for ("": nothing).
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

// CreateDataVolumesResult has one for each of the VM's templates.
type CreateDataVolumesResult struct {
	DataVolumes []DataVolume `json:"dataVolumes,omitempty"`
}

// ActivityCreateDataVolumes makes the DataVolumes that a VM's templates ask for.
const ActivityCreateDataVolumes = "CreateDataVolumes"

// AnnotationDeferDataVolumes on a VirtualMachine is "false" where its DataVolumes are made when it starts, not before.
const AnnotationDeferDataVolumes = "kubevirt.io/immediate-data-volume-creation"
