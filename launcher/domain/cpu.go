package domain

import (
	"slices"

	k8sv1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

func cpu(spec *v1.DomainSpec, topology libvirtxml.DomainCPUTopology, kvm bool) *libvirtxml.DomainCPU {
	c := &libvirtxml.DomainCPU{Topology: &topology}
	model := v1.CPUModeHostModel
	if spec.CPU != nil && spec.CPU.Model != "" {
		model = spec.CPU.Model
	}
	host := model == v1.CPUModeHostModel || model == v1.CPUModeHostPassthrough
	switch {
	case model == v1.CPUModeHostPassthrough && kvm:
		c.Mode = model
	case host:
		// Under emulation this is all that QEMU emulates, which is the same on every host; there is nothing to pass
		// through.
		c.Mode = v1.CPUModeHostModel
	default:
		c.Mode = "custom"
		c.Model = &libvirtxml.DomainCPUModel{Value: model}
		if !kvm {
			// Emulation lacks parts of most models; the guest gets the rest, as with KubeVirt's useEmulation.
			c.Match, c.Check = "exact", "none"
		}
		// Newer hosts of the same family have it no more: KubeVirt leaves it out as well.
		if !slices.ContainsFunc(spec.CPU.Features, func(f v1.CPUFeature) bool { return f.Name == "mpx" }) {
			c.Features = append(c.Features, libvirtxml.DomainCPUFeature{Policy: "disable", Name: "mpx"})
		}
	}
	if spec.CPU == nil {
		return c
	}
	for _, f := range spec.CPU.Features {
		c.Features = append(c.Features, libvirtxml.DomainCPUFeature{Name: f.Name, Policy: featurePolicy(f.Policy)})
	}
	return c
}

// featurePolicy: KubeVirt takes no policy as require.
func featurePolicy(policy string) string {
	if policy == "" {
		return "require"
	}
	return policy
}

// Topology is the guest's sockets, cores and threads. Without any in the spec, the CPU limit or request (rounded up)
// are sockets.
func Topology(vmi *v1.VirtualMachineInstance) libvirtxml.DomainCPUTopology {
	spec := &vmi.Spec.Domain
	t := libvirtxml.DomainCPUTopology{Sockets: 1, Cores: 1, Threads: 1}
	if c := spec.CPU; c != nil && (c.Sockets > 0 || c.Cores > 0 || c.Threads > 0) {
		t.Sockets = max(1, int(c.Sockets))
		t.Cores = max(1, int(c.Cores))
		t.Threads = max(1, int(c.Threads))
		return t
	}
	for _, list := range []k8sv1.ResourceList{spec.Resources.Limits, spec.Resources.Requests} {
		if q, ok := list[k8sv1.ResourceCPU]; ok && q.Value() > 0 {
			t.Sockets = int(q.Value())
			return t
		}
	}
	return t
}

// vcpus are the guest's virtual CPUs, and those that can be plugged in: cpu.maxSockets is how many sockets the machine
// has. What belongs to the first socket stays.
func vcpus(spec *v1.DomainSpec, t libvirtxml.DomainCPUTopology) (
	libvirtxml.DomainCPUTopology, *libvirtxml.DomainVCPU, *libvirtxml.DomainVCPUs,
) {
	each := t.Cores * t.Threads
	if spec.CPU == nil || spec.CPU.MaxSockets == 0 || int(spec.CPU.MaxSockets) < t.Sockets {
		return t, &libvirtxml.DomainVCPU{Placement: "static", Value: count(t.Sockets * each)}, nil
	}
	present := t.Sockets * each
	t.Sockets = int(spec.CPU.MaxSockets)
	list := &libvirtxml.DomainVCPUs{}
	for i := range t.Sockets * each {
		list.VCPU = append(list.VCPU, libvirtxml.DomainVCPUsVCPU{
			Id: ptr(count(i)), Enabled: yesNo(i < present), Hotpluggable: yesNo(i >= each),
		})
	}
	return t, &libvirtxml.DomainVCPU{Placement: "static", Value: count(t.Sockets * each)}, list
}

func count(n int) uint { return uint(n) } //nolint:gosec // bounded by the API's uint32 fields
