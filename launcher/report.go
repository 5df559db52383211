package launcher

import (
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/internal/multus"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// report returns what a VMI's status shows of the parts of its domain.
func report(
	vmi *v1.VirtualMachineInstance, d *libvirtxml.Domain, volumes map[string]domain.Volume,
	prepared []*rpc.PodInterface,
) *rpc.Domain {
	out := &rpc.Domain{}
	out.GuestMemoryBytes, _ = domain.GuestMemory(vmi) // Build has refused a VMI without memory
	byTap := map[string]*rpc.PodInterface{}
	for _, p := range prepared {
		byTap[p.GetTap()] = p
	}
	for i := range d.Devices.Interfaces {
		built := &d.Devices.Interfaces[i]
		p := byTap[built.Target.Dev]
		link := "up"
		if built.Link != nil {
			link = built.Link.State
		}
		out.Interfaces = append(out.Interfaces, &rpc.DomainInterface{
			Name: p.GetNetwork(), Mac: built.MAC.Address, PodInterface: p.GetPodInterface(),
			Queues: queues(built), LinkState: link, Bridged: p.GetMac() != "",
		})
	}
	for i := range vmi.Spec.Domain.Devices.Interfaces {
		if f := &vmi.Spec.Domain.Devices.Interfaces[i]; f.SRIOV != nil {
			device := &rpc.DomainInterface{Name: f.Name, Mac: f.MacAddress}
			if n := networkOf(vmi, f.Name); n != nil && n.Multus != nil {
				device.PodInterface = "pod" + multus.Suffix(f.Name)
			}
			out.Interfaces = append(out.Interfaces, device)
		}
	}
	// Disks are built in the order of the spec.
	for i := range d.Devices.Disks {
		name := vmi.Spec.Domain.Devices.Disks[i].Name
		out.Volumes = append(out.Volumes, &rpc.DomainVolume{
			Name: name, Target: d.Devices.Disks[i].Target.Dev, SizeBytes: volumes[name].Size,
		})
	}
	return out
}

func queues(i *libvirtxml.DomainInterface) int32 {
	if i.Driver == nil || i.Driver.Queues == 0 {
		return 1
	}
	return int32(i.Driver.Queues)
}
