package claims

import kubevirt "kubevirt.io/api/core/v1"

// Use is what an instance does with a claim.
type Use struct {
	// Writes says that its guest can, and Shareable that each of its disks on it is shareable.
	Writes, Shareable bool
}

// UseOf is what an instance does with the claim of that name.
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

// With says that two instances can use a claim at once: as QEMU's locks have it, none writes, or both share it.
func (u Use) With(other Use) bool {
	return !u.Writes && !other.Writes || u.Shareable && other.Shareable
}
