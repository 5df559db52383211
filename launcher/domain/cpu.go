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
		// Under emulation, the host model is everything that QEMU emulates, which is the same on every host. Nothing
		// can be passed through.
		c.Mode = v1.CPUModeHostModel
	default:
		c.Mode = "custom"
		c.Model = &libvirtxml.DomainCPUModel{Value: model}
		if !kvm {
			// Emulation lacks parts of most models; the guest gets the rest, as with KubeVirt's useEmulation.
			c.Match, c.Check = "exact", "none"
		}
		// Newer hosts of the same family lack it: KubeVirt leaves it out as well.
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

// featurePolicy returns the policy of a CPU feature; as in KubeVirt, none means require.
func featurePolicy(policy string) string {
	if policy == "" {
		return "require"
	}
	return policy
}

// Topology returns the guest's sockets, cores and threads. If the spec has none, the sockets are the CPU limit or
// request, rounded up.
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

// vcpus returns the guest's virtual CPUs, present and hot-pluggable: the machine has cpu.maxSockets sockets. CPUs of
// the first socket cannot be unplugged.
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

func count(n int) uint { return uint(n) } // bounded by the API's uint32 fields
