package machinemetrics

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/claims"
)

// request is one series of kubevirt_vm_resource_requests or kubevirt_vm_resource_limits.
type request struct {
	resource, unit, source string
	value                  float64
}

// The values of the labels of requests, by KubeVirt's names.
const (
	resourceCPU, resourceMemory                    = "cpu", "memory"
	unitBytes, unitCores, unitSockets, unitThreads = "bytes", "cores", "sockets", "threads"

	sourceDomain, sourceGuest, sourceHugepages     = "domain", "guest", "hugepages"
	sourceDefault, sourceRequests, sourceEffective = "default", "requests", "guest_effective"
)

// requests returns the CPUs and the memory of a domain by where its template has them, and as the guest gets them.
// As in KubeVirt, the page size of hugepages stands for them.
func requests(d *kubevirt.DomainSpec) []request {
	var out []request
	add := func(resource, unit, source string, value float64) {
		if value != 0 {
			out = append(out, request{resource: resource, unit: unit, source: source, value: value})
		}
	}
	asked := d.Resources.Requests
	add(resourceMemory, unitBytes, sourceDomain, float64(asked.Memory().Value()))
	if m := d.Memory; m != nil {
		add(resourceMemory, unitBytes, sourceGuest, bytes(m.Guest))
		if m.Hugepages != nil {
			if size, err := resource.ParseQuantity(m.Hugepages.PageSize); err == nil {
				add(resourceMemory, unitBytes, sourceHugepages, bytes(&size))
			}
		}
	}
	add(resourceMemory, unitBytes, sourceEffective, guestMemory(d))
	cpus := cores(asked)
	add(resourceCPU, unitCores, sourceRequests, cpus)
	switch c := d.CPU; {
	case c != nil:
		add(resourceCPU, unitCores, sourceDomain, float64(c.Cores))
		add(resourceCPU, unitThreads, sourceDomain, float64(c.Threads))
		add(resourceCPU, unitSockets, sourceDomain, float64(c.Sockets))
		add(resourceCPU, unitCores, sourceEffective,
			float64(max(1, c.Cores))*float64(max(1, c.Threads))*float64(max(1, c.Sockets)))
	default:
		if cpus == 0 {
			for _, unit := range []string{unitCores, unitThreads, unitSockets} {
				add(resourceCPU, unit, sourceDefault, 1)
			}
		}
		add(resourceCPU, unitCores, sourceEffective, 1)
	}
	return out
}

// limits returns the limits of a domain's resources.
func limits(d *kubevirt.DomainSpec) []request {
	var out []request
	if n := d.Resources.Limits.Memory().Value(); n != 0 {
		out = append(out, request{resource: resourceMemory, unit: unitBytes, value: float64(n)})
	}
	if n := cores(d.Resources.Limits); n != 0 {
		out = append(out, request{resource: resourceCPU, unit: unitCores, value: n})
	}
	return out
}

// guestMemory returns the memory that the guest gets, in bytes.
func guestMemory(d *kubevirt.DomainSpec) float64 {
	if d.Memory != nil && d.Memory.Guest != nil {
		return bytes(d.Memory.Guest)
	}
	for _, list := range []corev1.ResourceList{d.Resources.Requests, d.Resources.Limits} {
		if q, ok := list[corev1.ResourceMemory]; ok {
			return bytes(&q)
		}
	}
	return 0
}

func bytes(q *resource.Quantity) float64 {
	if q == nil {
		return 0
	}
	return float64(q.Value())
}

func cores(list corev1.ResourceList) float64 { return float64(list.Cpu().MilliValue()) / 1000 }

// disk is one series of kubevirt_vm_disk_allocated_size_bytes.
type disk struct {
	pvc, mode, device string
	size              float64
}

// disks returns those disks of a VM whose PVC exists. A template of the VM's DataVolume decides about the size.
func disks(vm *kubevirt.VirtualMachine, pvc func(name string) *corev1.PersistentVolumeClaim) []disk {
	var out []disk
	for n := range vm.Spec.Template.Spec.Volumes {
		v := &vm.Spec.Template.Spec.Volumes[n]
		name, isClaim := claims.Of(v)
		if !isClaim {
			continue
		}
		found := pvc(name)
		if found == nil {
			continue
		}
		d := disk{pvc: name, device: v.Name, size: bytes(found.Spec.Resources.Requests.Storage())}
		if found.Spec.VolumeMode != nil {
			d.mode = string(*found.Spec.VolumeMode)
		}
		if size := templateSize(vm, claims.DataVolume(v)); size != nil {
			d.size = bytes(size)
		}
		out = append(out, d)
	}
	return out
}

// templateSize returns the size that a VM's template of a DataVolume requests; nil: it has none.
func templateSize(vm *kubevirt.VirtualMachine, dataVolume string) *resource.Quantity {
	for n := range vm.Spec.DataVolumeTemplates {
		t := &vm.Spec.DataVolumeTemplates[n]
		if dataVolume != "" && t.Name == dataVolume && t.Spec.Storage != nil {
			return t.Spec.Storage.Resources.Requests.Storage()
		}
	}
	return nil
}
