package claims

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

// Where a launcher finds the claims of its VMI, each by its volume's name: file systems beneath Directory, and devices
// beneath Devices. There a device of a name like "kvm" does not take the place of another in /dev.
const (
	Directory = "/run/virtflow/claims"
	// DevicesName is the folder of Devices in /dev.
	DevicesName = "virtflow"
	Devices     = "/dev/" + DevicesName
)

// Of is the name of the claim that a volume is, or that its image lies on; false: there is none.
func Of(v *kubevirt.Volume) (name string, _ bool) {
	if e := v.Ephemeral; e != nil {
		if e.PersistentVolumeClaim == nil {
			return "", true
		}
		return e.PersistentVolumeClaim.ClaimName, true
	}
	return Kept(v)
}

// Kept is Of for volumes that keep what the guest writes. The claim of a DataVolume has its name.
func Kept(v *kubevirt.Volume) (name string, _ bool) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName, true
	case v.DataVolume != nil:
		return v.DataVolume.Name, true
	default:
		return "", false
	}
}

// DataVolume is the name of the DataVolume that a volume is; "": it is none.
func DataVolume(v *kubevirt.Volume) string {
	if v.DataVolume == nil {
		return ""
	}
	return v.DataVolume.Name
}

// ReadOnly says that a volume is mounted so that nobody can write to it. An ephemeral one has what the guest writes
// elsewhere.
func ReadOnly(v *kubevirt.Volume) bool {
	return v.Ephemeral != nil || v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly
}

// Known is what the status of an instance says of the claim of one of its volumes; nil: nothing.
func Known(vmi *kubevirt.VirtualMachineInstance, volume string) *kubevirt.PersistentVolumeClaimInfo {
	i := slices.IndexFunc(vmi.Status.VolumeStatus, func(s kubevirt.VolumeStatus) bool { return s.Name == volume })
	if i < 0 {
		return nil
	}
	return vmi.Status.VolumeStatus[i].PersistentVolumeClaimInfo
}

// Block says that a claim is a device, and not a file system.
func Block(c *kubevirt.PersistentVolumeClaimInfo) bool {
	return c.VolumeMode != nil && *c.VolumeMode == corev1.PersistentVolumeBlock
}

// Shared says that a claim can be had on several nodes at once.
func Shared(c *kubevirt.PersistentVolumeClaimInfo) bool {
	return slices.Contains(c.AccessModes, corev1.ReadWriteMany)
}
