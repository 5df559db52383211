package hardware

import kubevirt "kubevirt.io/api/core/v1"

// MostPoolThreads is QEMU's limit for the queues of a virtio device: more threads would be idle.
const MostPoolThreads = 1024

// SupplementalPool returns the number of I/O threads that a guest shares among all its virtio disks, with CPU time
// besides that of its virtual CPUs; 0 if it requests no such pool.
func SupplementalPool(spec *kubevirt.DomainSpec) uint32 {
	if p := spec.IOThreadsPolicy; p == nil || *p != kubevirt.IOThreadsPolicySupplementalPool || spec.IOThreads == nil ||
		spec.IOThreads.SupplementalPoolThreadCount == nil {
		return 0
	}
	return *spec.IOThreads.SupplementalPoolThreadCount
}
