package claims

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

// Where a launcher finds the PVCs of its VMI, each by its volume's name: file systems beneath Directory, and devices
// beneath Devices. In that folder a device of a name like "kvm" does not replace one of /dev.
const (
	Directory = "/run/virtflow/claims"
	// DevicesName is the folder of Devices in /dev.
	DevicesName = "virtflow"
	Devices     = "/dev/" + DevicesName
)

// Of returns the name of the PVC that a volume is, or that its overlay is on; false if there is none.
func Of(v *kubevirt.Volume) (name string, _ bool) {
	if e := v.Ephemeral; e != nil {
		if e.PersistentVolumeClaim == nil {
			return "", true
		}
		return e.PersistentVolumeClaim.ClaimName, true
	}
	return Kept(v)
}

// Kept is like Of, for volumes that keep what the guest writes. The PVC of a DataVolume has its name.
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

// DataVolume returns the name of the DataVolume that a volume is; "" if it is none.
func DataVolume(v *kubevirt.Volume) string {
	if v.DataVolume == nil {
		return ""
	}
	return v.DataVolume.Name
}

// ReadOnly reports whether a volume is mounted read-only. An ephemeral one has the guest's writes elsewhere.
func ReadOnly(v *kubevirt.Volume) bool {
	return v.Ephemeral != nil || v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly
}

// Known returns what the status of an instance has about the PVC of one of its volumes; nil if nothing.
func Known(vmi *kubevirt.VirtualMachineInstance, volume string) *kubevirt.PersistentVolumeClaimInfo {
	i := slices.IndexFunc(vmi.Status.VolumeStatus, func(s kubevirt.VolumeStatus) bool { return s.Name == volume })
	if i < 0 {
		return nil
	}
	return vmi.Status.VolumeStatus[i].PersistentVolumeClaimInfo
}

// Block reports whether a PVC is a block device rather than a file system.
func Block(c *kubevirt.PersistentVolumeClaimInfo) bool {
	return c.VolumeMode != nil && *c.VolumeMode == corev1.PersistentVolumeBlock
}

// Shared reports whether a PVC can be used on several nodes at once.
func Shared(c *kubevirt.PersistentVolumeClaimInfo) bool {
	return slices.Contains(c.AccessModes, corev1.ReadWriteMany)
}
