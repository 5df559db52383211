package instance

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/settings"
)

// setDefaults fills in what KubeVirt's webhook for instances would: a VM's own defaults were set when the VM was written, these
// are the rest that decides what the guest gets. What is set already is left alone.
func setDefaults(spec *kubevirt.VirtualMachineInstanceSpec, s settings.Settings) {
	spec.Architecture = Architecture(spec)
	defaultMachine(spec, s)
	defaultCPU(spec)
	defaultMemory(spec)
	defaultNetwork(spec)
	defaultDisks(spec)
	if spec.EvictionStrategy == nil {
		strategy := kubevirt.EvictionStrategyNone
		if s.EvictionStrategy != nil {
			strategy = *s.EvictionStrategy
		}
		spec.EvictionStrategy = &strategy
	}
}

func defaultMachine(spec *kubevirt.VirtualMachineInstanceSpec, s settings.Settings) {
	if spec.Domain.Machine == nil {
		spec.Domain.Machine = &kubevirt.Machine{}
	}
	if spec.Domain.Machine.Type != "" {
		return
	}
	switch {
	case s.MachineType != "":
		spec.Domain.Machine.Type = s.MachineType
	case spec.Architecture == "arm64":
		spec.Domain.Machine.Type = "virt"
	case spec.Architecture == "s390x":
		spec.Domain.Machine.Type = "s390-ccw-virtio"
	default:
		spec.Domain.Machine.Type = "q35"
	}
}

// defaultCPU: without a topology there are as many sockets as CPUs are allowed, else requested, else one.
func defaultCPU(spec *kubevirt.VirtualMachineInstanceSpec) {
	if spec.Domain.CPU == nil {
		spec.Domain.CPU = &kubevirt.CPU{}
	}
	c := spec.Domain.CPU
	if c.Sockets == 0 && c.Cores == 0 && c.Threads == 0 {
		if q, ok := spec.Domain.Resources.Limits[corev1.ResourceCPU]; ok {
			c.Sockets = uint32(max(1, q.Value()))
		} else if q, ok := spec.Domain.Resources.Requests[corev1.ResourceCPU]; ok {
			c.Sockets = uint32(max(1, q.Value()))
		}
	}
	c.Sockets, c.Cores, c.Threads = max(1, c.Sockets), max(1, c.Cores), max(1, c.Threads)
}

func defaultMemory(spec *kubevirt.VirtualMachineInstanceSpec) {
	if spec.Domain.Memory != nil && spec.Domain.Memory.Guest != nil {
		return
	}
	for _, list := range []corev1.ResourceList{spec.Domain.Resources.Requests, spec.Domain.Resources.Limits} {
		if q, ok := list[corev1.ResourceMemory]; ok {
			if spec.Domain.Memory == nil {
				spec.Domain.Memory = &kubevirt.Memory{}
			}
			spec.Domain.Memory.Guest = &q
			return
		}
	}
}

// defaultNetwork attaches a guest that says nothing about networks to the pod's, by masquerade: the one binding that is served.
func defaultNetwork(spec *kubevirt.VirtualMachineInstanceSpec) {
	attach := spec.Domain.Devices.AutoattachPodInterface
	if len(spec.Networks) > 0 || len(spec.Domain.Devices.Interfaces) > 0 || attach != nil && !*attach {
		return
	}
	spec.Networks = []kubevirt.Network{*kubevirt.DefaultPodNetwork()}
	spec.Domain.Devices.Interfaces = []kubevirt.Interface{*kubevirt.DefaultMasqueradeNetworkInterface()}
}

func defaultDisks(spec *kubevirt.VirtualMachineInstanceSpec) {
	has := map[string]bool{}
	for _, d := range spec.Domain.Devices.Disks {
		has[d.Name] = true
	}
	for _, f := range spec.Domain.Devices.Filesystems {
		has[f.Name] = true
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if !has[v.Name] {
			spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, kubevirt.Disk{Name: v.Name})
		}
		if d := v.ContainerDisk; d != nil && d.ImagePullPolicy == "" {
			d.ImagePullPolicy = pullPolicy(d.Image)
		}
	}
	for i := range spec.Domain.Devices.Disks {
		d := &spec.Domain.Devices.Disks[i]
		if d.Disk == nil && d.LUN == nil && d.CDRom == nil {
			d.Disk = &kubevirt.DiskTarget{}
		}
		bus := kubevirt.DiskBusVirtio
		if spec.Architecture == "amd64" {
			bus = kubevirt.DiskBusSATA
		}
		switch {
		case d.Disk != nil && d.Disk.Bus == "":
			d.Disk.Bus = bus
		case d.CDRom != nil && d.CDRom.Bus == "":
			d.CDRom.Bus = bus
		case d.LUN != nil && d.LUN.Bus == "":
			d.LUN.Bus = bus
		}
	}
}

// pullPolicy is that of Kubernetes: an image that may change under its name is asked for each time.
func pullPolicy(image string) corev1.PullPolicy {
	if strings.HasSuffix(image, ":latest") || !strings.ContainsAny(image, ":@") {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}
