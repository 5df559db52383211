package domain

import (
	"fmt"

	k8sv1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// GuestMemory returns the memory that the guest sees, in bytes: memory.guest, else the container's request, else its
// limit.
func GuestMemory(vmi *v1.VirtualMachineInstance) (int64, error) {
	spec := &vmi.Spec.Domain
	if spec.Memory != nil && spec.Memory.Guest != nil {
		if n := spec.Memory.Guest.Value(); n > 0 {
			return n, nil
		}
		return 0, invalid("spec.domain.memory.guest", "must be more than 0, found %s", spec.Memory.Guest)
	}
	for _, list := range []k8sv1.ResourceList{spec.Resources.Requests, spec.Resources.Limits} {
		if q, ok := list[k8sv1.ResourceMemory]; ok && q.Value() > 0 {
			return q.Value(), nil
		}
	}
	return 0, invalid("spec.domain.memory.guest",
		"must be set, here or in spec.domain.resources.requests.memory")
}

// memory sets the size and the backing of the guest's memory.
func memory(d *libvirtxml.Domain, vmi *v1.VirtualMachineInstance, bytes int64) {
	spec := vmi.Spec.Domain.Memory
	d.Memory = &libvirtxml.DomainMemory{Value: uint(bytes), Unit: "b"} // checked to be positive
	cell := false
	if spec != nil && spec.MaxGuest != nil && spec.MaxGuest.Value() > bytes {
		// more than a positive number
		d.MaximumMemory = &libvirtxml.DomainMaxMemory{Value: uint(spec.MaxGuest.Value()), Unit: "b"}
	}
	if spec != nil && spec.Hugepages != nil {
		d.MemoryBacking = &libvirtxml.DomainMemoryBacking{MemoryHugePages: &libvirtxml.DomainMemoryHugepages{}}
		if vmi.Annotations[v1.MemfdMemoryBackend] != "false" {
			d.MemoryBacking.MemorySource = &libvirtxml.DomainMemorySource{Type: "memfd"}
			cell = true
		}
	}
	if len(vmi.Spec.Domain.Devices.Filesystems) > 0 { // their daemons access the guest's memory
		if d.MemoryBacking == nil {
			d.MemoryBacking = &libvirtxml.DomainMemoryBacking{}
		}
		d.MemoryBacking.MemorySource = &libvirtxml.DomainMemorySource{Type: "memfd"}
		d.MemoryBacking.MemoryAccess = &libvirtxml.DomainMemoryAccess{Mode: "shared"}
		cell = true
	}
	if cell {
		// File-backed memory must belong to a NUMA cell.
		d.CPU.Numa = &libvirtxml.DomainNuma{Cell: []libvirtxml.DomainCell{{
			ID: ptr(uint(0)), CPUs: fmt.Sprintf("0-%d", d.VCPU.Value-1), Memory: d.Memory.Value, Unit: "b",
		}}}
	}
}

// freePageReporting reports whether the guest gives free memory back: not if its memory is reserved for it.
func freePageReporting(vmi *v1.VirtualMachineInstance) bool {
	spec := &vmi.Spec.Domain
	if spec.Memory != nil && spec.Memory.Hugepages != nil {
		return false
	}
	if c := spec.CPU; c != nil && (c.DedicatedCPUPlacement || c.IsolateEmulatorThread || c.Realtime != nil) {
		return false
	}
	return vmi.Annotations[v1.FreePageReportingDisabledAnnotation] != "true"
}
