package defaults

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// kubevirtCPURequest is KubeVirt's own request for each CPU.
const kubevirtCPURequest = "100m"

// cpuRequest copies a limit without a request, and applies the cluster's own request where that is not KubeVirt's 100m
// (which the pod's rendering computes from the number of virtual CPUs).
func cpuRequest(spec *kubevirtv1.VirtualMachineInstanceSpec, cluster Cluster) {
	r := &spec.Domain.Resources
	set := func(q resource.Quantity) {
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[corev1.ResourceCPU] = q.DeepCopy()
	}
	if !r.Limits.Cpu().IsZero() && r.Requests.Cpu().IsZero() {
		set(r.Limits[corev1.ResourceCPU])
	}
	dedicated := spec.Domain.CPU != nil && spec.Domain.CPU.DedicatedCPUPlacement
	if _, ok := r.Requests[corev1.ResourceCPU]; ok || dedicated {
		return
	}
	if q := cluster.Configuration.CPURequest; q != nil && !q.Equal(resource.MustParse(kubevirtCPURequest)) {
		set(*q)
	}
}

// guestMemory sets the guest's memory to the pod's request if it has none.
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

// cpuTopology derives a topology from the pod's request or limit if the spec has none.
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
	if q, ok := r.Limits[corev1.ResourceCPU]; ok {
		cpu.Sockets = uint32(q.Value()) // a number of CPUs
	} else if q, ok := r.Requests[corev1.ResourceCPU]; ok {
		cpu.Sockets = uint32(q.Value()) // a number of CPUs
	}
}

func cpuModel(spec *kubevirtv1.VirtualMachineInstanceSpec, cluster Cluster) {
	switch {
	case spec.Domain.CPU.Model != "":
	case cluster.Configuration.CPUModel != "":
		spec.Domain.CPU.Model = cluster.Configuration.CPUModel
	default:
		spec.Domain.CPU.Model = kubevirtv1.DefaultCPUModel
	}
}

// pullPolicies applies Kubernetes' own rule for container images.
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

// inputDevice returns the input device of a guest that asks for one without naming it.
func inputDevice(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	d := &spec.Domain.Devices
	if d.AutoattachInputDevice != nil && *d.AutoattachInputDevice && len(d.Inputs) == 0 {
		d.Inputs = []kubevirtv1.Input{{Name: "default-0"}}
	}
}

// missingDisks adds a disk for every volume without one, with the volume's name.
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
