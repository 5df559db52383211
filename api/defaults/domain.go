package defaults

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Numbers of KubeVirt's live update configuration and of libvirt.
const (
	defaultHotplugRatio = 4
	maxVCPUs            = 512
	minHotplugMemory    = 1 << 30
	hotplugAlignment    = 2 << 20
)

// cpuRequest copies a limit that stands alone, and applies the cluster's own request where that is not KubeVirt's 100m (which the pod's
// rendering computes from the number of virtual CPUs).
func cpuRequest(spec *kubevirtv1.VirtualMachineInstanceSpec, cluster Cluster) {
	r := &spec.Domain.Resources
	if _, ok := r.Requests[corev1.ResourceCPU]; ok {
		return
	}
	set := func(q resource.Quantity) {
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[corev1.ResourceCPU] = q.DeepCopy()
	}
	if limit, ok := r.Limits[corev1.ResourceCPU]; ok {
		set(limit)
		return
	}
	dedicated := spec.Domain.CPU != nil && spec.Domain.CPU.DedicatedCPUPlacement
	if q := cluster.Configuration.CPURequest; q != nil && q.String() != "100m" && !dedicated {
		set(*q)
	}
}

// guestMemory is what was asked for the pod when the guest's own size was left out.
func guestMemory(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	d := &spec.Domain
	if d.Memory == nil {
		d.Memory = &kubevirtv1.Memory{}
	}
	if d.Memory.Guest != nil {
		return
	}
	size := d.Resources.Requests.Memory()
	if size.IsZero() {
		size = d.Resources.Limits.Memory()
	}
	if size.IsZero() && d.Memory.Hugepages != nil {
		if q, err := resource.ParseQuantity(d.Memory.Hugepages.PageSize); err == nil {
			size = &q
		}
	}
	if size.IsZero() {
		return
	}
	q := size.DeepCopy()
	d.Memory.Guest = &q
}

// cpuTopology makes a topology of what was asked for the pod when none was given.
func cpuTopology(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	if spec.Domain.CPU == nil {
		spec.Domain.CPU = &kubevirtv1.CPU{}
	}
	cpu := spec.Domain.CPU
	if cpu.Cores != 0 || cpu.Sockets != 0 || cpu.Threads != 0 {
		return
	}
	cpu.Cores, cpu.Sockets, cpu.Threads = 1, 1, 1
	r := spec.Domain.Resources
	if q := r.Limits.Cpu(); !q.IsZero() {
		cpu.Sockets = uint32(q.Value()) //nolint:gosec // a number of CPUs
	} else if q := r.Requests.Cpu(); !q.IsZero() {
		cpu.Sockets = uint32(q.Value()) //nolint:gosec // a number of CPUs
	}
}

func cpuModel(spec *kubevirtv1.VirtualMachineInstanceSpec, cluster Cluster) {
	if spec.Domain.CPU.Model != "" {
		return
	}
	switch {
	case spec.Architecture == arm64:
		spec.Domain.CPU.Model = kubevirtv1.CPUModeHostPassthrough
	case cluster.Configuration.CPUModel != "":
		spec.Domain.CPU.Model = cluster.Configuration.CPUModel
	default:
		spec.Domain.CPU.Model = kubevirtv1.DefaultCPUModel
	}
}

// pullPolicies follow Kubernetes' own rule for container images.
func pullPolicies(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	for i := range spec.Volumes {
		d := spec.Volumes[i].ContainerDisk
		if d == nil || d.ImagePullPolicy != "" {
			continue
		}
		d.ImagePullPolicy = corev1.PullIfNotPresent
		if strings.HasSuffix(d.Image, ":latest") || !strings.ContainsAny(d.Image, ":@") {
			d.ImagePullPolicy = corev1.PullAlways
		}
	}
}

// missingDisks gives every volume that nothing refers to a disk of its name.
func missingDisks(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	used := map[string]bool{}
	for _, d := range spec.Domain.Devices.Disks {
		used[d.Name] = true
	}
	for _, f := range spec.Domain.Devices.Filesystems {
		used[f.Name] = true
	}
	for _, v := range spec.Volumes {
		if !used[v.Name] {
			spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, kubevirtv1.Disk{Name: v.Name})
		}
	}
}

func diskBuses(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	bus := kubevirtv1.DiskBusSATA
	if spec.Architecture == arm64 || spec.Architecture == s390x {
		bus = kubevirtv1.DiskBusVirtio
	}
	for i := range spec.Domain.Devices.Disks {
		d := &spec.Domain.Devices.Disks[i].DiskDevice
		if d.Disk != nil && d.Disk.Bus == "" {
			d.Disk.Bus = bus
		}
		if d.CDRom != nil && d.CDRom.Bus == "" {
			d.CDRom.Bus = bus
		}
		if d.LUN != nil && d.LUN.Bus == "" {
			d.LUN.Bus = bus
		}
	}
}

// hotplugLimits are how far a running VMI may grow, where the cluster lets templates reach running VMIs.
func hotplugLimits(spec *kubevirtv1.VirtualMachineInstanceSpec, cluster Cluster) {
	live := cluster.Configuration.LiveUpdateConfiguration
	if live == nil {
		live = &kubevirtv1.LiveUpdateConfiguration{}
	}
	ratio := uint32(defaultHotplugRatio)
	if live.MaxHotplugRatio > 0 {
		ratio = live.MaxHotplugRatio
	}
	if cpu := spec.Domain.CPU; cpu.MaxSockets == 0 {
		cpu.MaxSockets = cpu.Sockets * ratio
		if live.MaxCpuSockets != nil {
			cpu.MaxSockets = max(*live.MaxCpuSockets, cpu.Sockets)
		}
		if each := max(cpu.Cores, 1) * max(cpu.Threads, 1); cpu.MaxSockets*each > maxVCPUs {
			cpu.MaxSockets = max(maxVCPUs/each, cpu.Sockets)
		}
	}
	m := spec.Domain.Memory
	if m == nil || m.MaxGuest != nil || m.Guest == nil || spec.Architecture != amd64 || !memoryCanGrow(spec) {
		return
	}
	if live.MaxGuest != nil {
		q := live.MaxGuest.DeepCopy()
		m.MaxGuest = &q
		return
	}
	m.MaxGuest = resource.NewQuantity(m.Guest.Value()*int64(ratio), m.Guest.Format)
}

func memoryCanGrow(spec *kubevirtv1.VirtualMachineInstanceSpec) bool {
	cpu, m := spec.Domain.CPU, spec.Domain.Memory
	if cpu.Realtime != nil || (cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil) || spec.Domain.LaunchSecurity != nil {
		return false
	}
	alignment := int64(hotplugAlignment)
	if m.Hugepages != nil && m.Hugepages.PageSize == "1Gi" {
		alignment = 1 << 30
	}
	return m.Guest.Value() >= minHotplugMemory && m.Guest.Value()%alignment == 0
}
