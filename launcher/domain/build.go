package domain

import (
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Build builds the domain. Every error is an *InvalidError, or means that the host's CPUs or devices do not suffice. A
// Volume or Interface that is missing from the input is an *InvalidError too: the caller prepares them first.
func Build(in Input) (*libvirtxml.Domain, error) {
	if err := Supported(in.VMI); err != nil {
		return nil, err
	}
	spec := &in.VMI.Spec.Domain
	bytes, err := GuestMemory(in.VMI)
	if err != nil {
		return nil, err
	}
	topology := Topology(in.VMI)
	disks, ioThreads, err := buildDisks(in, count(topology.Sockets*topology.Cores*topology.Threads))
	if err != nil {
		return nil, err
	}
	interfaces, err := buildInterfaces(in)
	if err != nil {
		return nil, err
	}

	d := &libvirtxml.Domain{
		Type:       "qemu",
		Name:       Name(in.VMI),
		UUID:       UUID(in.VMI),
		IOThreads:  ioThreads,
		SysInfo:    sysInfo(in.VMI, in.Hardware.SMBIOS),
		OS:         operatingSystem(in),
		Features:   features(spec, in.KVM),
		Clock:      clock(spec.Clock),
		OnPoweroff: "destroy",
		OnReboot:   "restart",
		OnCrash:    "destroy",
		Devices:    devices(in),
	}
	if in.KVM {
		d.Type = "kvm"
	}
	if p := spec.RebootPolicy; p != nil && *p == v1.RebootPolicyTerminate {
		d.OnReboot = "destroy"
	}
	if err := attach(d.Devices, spec, in.HostDevices); err != nil {
		return nil, err
	}
	d.Devices.Disks = disks
	d.Devices.Interfaces = interfaces
	if d.Devices.Filesystems, err = fileSystems(in); err != nil {
		return nil, err
	}
	ports, err := hostNetworks(in)
	if err != nil {
		return nil, err
	}
	d.Devices.Hostdevs = append(d.Devices.Hostdevs, ports...)
	present := topology.Sockets * topology.Cores * topology.Threads
	topology, d.VCPU, d.VCPUs = vcpus(spec, topology)
	d.CPU = cpu(spec, topology, in.KVM)
	memory(d, in.VMI, bytes)
	if err := pin(d, in, present); err != nil {
		return nil, err
	}
	return d, arrangePCI(d, in.VMI)
}

// StartPaused reports whether the VMI's virtual CPUs are halted until a user resumes it.
func StartPaused(vmi *v1.VirtualMachineInstance) bool {
	s := vmi.Spec.StartStrategy
	return s != nil && *s == v1.StartStrategyPaused
}

func enabled(f *v1.FeatureState) bool { return f != nil && (f.Enabled == nil || *f.Enabled) }

func isTrue(b *bool) bool { return b != nil && *b }

func unlessFalse(b *bool) bool { return b == nil || *b }

func ptr[T any](v T) *T { return &v }
