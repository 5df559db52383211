package domain

import (
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

// Build makes the domain. Every error is an *InvalidError, except that a missing Volume or Interface in the input is
// one too: the caller prepares them before.
func Build(in Input) (*libvirtxml.Domain, error) {
	if err := Supported(in.VMI); err != nil {
		return nil, err
	}
	spec := &in.VMI.Spec.Domain
	memory, err := GuestMemory(in.VMI)
	if err != nil {
		return nil, err
	}
	topology := Topology(in.VMI)
	vcpus := uint(topology.Sockets * topology.Cores * topology.Threads) //nolint:gosec // bounded by the API's uint32 fields
	disks, ioThreads, err := buildDisks(in, vcpus)
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
		Memory:     &libvirtxml.DomainMemory{Value: uint(memory), Unit: "b"}, //nolint:gosec // checked to be positive
		VCPU:       &libvirtxml.DomainVCPU{Placement: "static", Value: vcpus},
		IOThreads:  ioThreads,
		SysInfo:    sysInfo(in.VMI),
		OS:         operatingSystem(in.VMI),
		Features:   features(spec, in.KVM),
		CPU:        cpu(spec, topology, in.KVM),
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
	d.Devices.Disks = disks
	d.Devices.Interfaces = interfaces
	return d, nil
}

// StartPaused says that the VMI's virtual CPUs are to be halted until somebody resumes it.
func StartPaused(vmi *v1.VirtualMachineInstance) bool {
	s := vmi.Spec.StartStrategy
	return s != nil && *s == v1.StartStrategyPaused
}

func enabled(f *v1.FeatureState) bool { return f != nil && (f.Enabled == nil || *f.Enabled) }

func isTrue(b *bool) bool { return b != nil && *b }

func unlessFalse(b *bool) bool { return b == nil || *b }

func ptr[T any](v T) *T { return &v }
