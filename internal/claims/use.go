package claims

import kubevirt "kubevirt.io/api/core/v1"

// Use describes how an instance uses a PVC.
type Use struct {
	// Writes is true if its guest can write, and Shareable if each of its disks on the PVC is shareable.
	Writes, Shareable bool
}

// UseOf returns how an instance uses the PVC of that name.
func UseOf(vmi *kubevirt.VirtualMachineInstance, name string) Use {
	out := Use{Shareable: true}
	for i := range vmi.Spec.Volumes {
		v := &vmi.Spec.Volumes[i]
		if claim, isClaim := Of(v); !isClaim || claim != name {
			continue
		}
		out.Writes = out.Writes || !ReadOnly(v)
		together := false
		for _, d := range vmi.Spec.Domain.Devices.Disks {
			together = together || d.Name == v.Name && d.Shareable != nil && *d.Shareable
		}
		out.Shareable = out.Shareable && together
	}
	return out
}

// With reports whether two instances can use a PVC at once: as QEMU's locks require, none writes, or both share it.
func (u Use) With(other Use) bool {
	return !u.Writes && !other.Writes || u.Shareable && other.Shareable
}
