package domain

import (
	k8sv1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/internal/hardware"
)

// ioThreads assigns I/O threads to virtio disks: one to each that asks for a dedicated thread, while the others share a
// pool. With a supplemental pool every disk uses all its threads: QEMU spreads the disk's queues over them.
type ioThreads struct {
	pool         uint // threads that are shared, numbered from 1
	supplemental bool
	turn         uint
	dedicated    uint
}

func newIOThreads(spec *v1.DomainSpec) *ioThreads {
	if n := hardware.SupplementalPool(spec); n > 0 {
		return &ioThreads{pool: uint(n), supplemental: true}
	}
	t := &ioThreads{}
	wantsOwn := uint(0)
	for i := range spec.Devices.Disks {
		if isTrue(spec.Devices.Disks[i].DedicatedIOThread) {
			wantsOwn++
		}
	}
	policy := spec.IOThreadsPolicy
	switch {
	case policy != nil && *policy == v1.IOThreadsPolicyAuto:
		disks, most := uint(len(spec.Devices.Disks)), 2*requestedCPUs(spec)
		t.pool = disks - wantsOwn
		if disks > most {
			t.pool = max(1, most-min(wantsOwn, most))
		}
	case policy != nil && *policy == v1.IOThreadsPolicyShared, policy == nil && wantsOwn > 0:
		t.pool = 1
	}
	return t
}

// requestedCPUs returns the number of CPUs that the pod is guaranteed, at least one.
func requestedCPUs(spec *v1.DomainSpec) uint {
	for _, list := range []k8sv1.ResourceList{spec.Resources.Requests, spec.Resources.Limits} {
		if q, ok := list[k8sv1.ResourceCPU]; ok {
			return max(1, count(int(q.Value())))
		}
	}
	return 1
}

func (t *ioThreads) assign(driver *libvirtxml.DomainDiskDriver, own bool) {
	switch {
	case t.supplemental:
		driver.IOThreads = &libvirtxml.DomainDiskIOThreads{}
		for i := range t.pool {
			driver.IOThreads.IOThread = append(driver.IOThreads.IOThread, libvirtxml.DomainDiskIOThread{ID: i + 1})
		}
	case own:
		t.dedicated++
		driver.IOThread = ptr(t.pool + t.dedicated)
	case t.pool > 0:
		t.turn++
		driver.IOThread = ptr((t.turn-1)%t.pool + 1)
	}
}

func (t *ioThreads) total() uint { return t.pool + t.dedicated }
