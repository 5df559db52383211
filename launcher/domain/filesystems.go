package domain

import (
	"fmt"

	"libvirt.org/go/libvirtxml"
)

// virtiofsQueue is KubeVirt's queue size: the most requests of the guest that may be in flight.
const virtiofsQueue = 1024

// fileSystems returns the volumes that the guest mounts by virtiofs.
func fileSystems(in Input) ([]libvirtxml.DomainFilesystem, error) {
	var out []libvirtxml.DomainFilesystem
	for i, f := range in.VMI.Spec.Domain.Devices.Filesystems {
		field := fmt.Sprintf("spec.domain.devices.filesystems[%d]", i)
		if f.Virtiofs == nil {
			return nil, invalid(field, "is not supported yet without virtiofs")
		}
		socket := in.FileSystems[f.Name]
		if socket == "" {
			return nil, invalid(field, "volume %s was not prepared", f.Name)
		}
		out = append(out, libvirtxml.DomainFilesystem{
			AccessMode: "passthrough",
			Driver:     &libvirtxml.DomainFilesystemDriver{Type: "virtiofs", Queue: virtiofsQueue},
			Source: &libvirtxml.DomainFilesystemSource{
				Mount: &libvirtxml.DomainFilesystemSourceMount{Socket: socket}},
			Target: &libvirtxml.DomainFilesystemTarget{Dir: f.Name},
		})
	}
	return out, nil
}
