package hardware

import kubevirt "kubevirt.io/api/core/v1"

// MostPoolThreads is QEMU's limit for the queues of a virtio device: more threads than that have nothing to do.
const MostPoolThreads = 1024

// SupplementalPool is how many I/O threads a guest shares among all its virtio disks, with CPU time beside that of its
// virtual CPUs; 0: it asks for no such pool.
func SupplementalPool(spec *kubevirt.DomainSpec) uint32 {
	if p := spec.IOThreadsPolicy; p == nil || *p != kubevirt.IOThreadsPolicySupplementalPool || spec.IOThreads == nil ||
		spec.IOThreads.SupplementalPoolThreadCount == nil {
		return 0
	}
	return *spec.IOThreads.SupplementalPoolThreadCount
}
