package hardware

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

const mi = 1 << 20

// Parts of the memory that a launcher needs beside its guest, in bytes; the figures are KubeVirt 1.9's, so that a VM
// fits where it fitted before.
const (
	fixedOverhead    = 220 * mi // monitor, launcher, logging daemon, libvirt, QEMU
	perCPUOverhead   = 8 * mi
	ioThreadOverhead = 8 * mi
	graphicsOverhead = 32 * mi
	armOverhead      = 128 * mi
	guaranteedExtra  = 100 * mi
	// probeOverhead is once for all probes that run a command in the guest, eachProbe for each of them.
	probeOverhead = 100 * mi
	eachProbe     = 10 * mi
	// emulationOverhead is QEMU's cache of translated code, which the launcher sets to 64 MiB: smaller doubles the boot
	// time.
	emulationOverhead = 64 * mi
	tpmOverhead       = 53 * mi // swtpm
	// virtiofsdOverhead is the memory limit that KubeVirt sets for each of its containers for them.
	virtiofsdOverhead = 80_000_000
	// vfioOverhead is KubeVirt's, once for all devices of the host's: their memory is mapped into QEMU.
	vfioOverhead = 1024 * mi
)

// Overhead returns the memory that a launcher needs beside its guest, in bytes, before ClusterOverhead.
func Overhead(vmi *kubevirt.VirtualMachineInstance) int64 {
	d := &vmi.Spec.Domain
	var sum int64 = fixedOverhead + ioThreadOverhead
	if q, ok := d.Resources.Requests[corev1.ResourceMemory]; ok {
		sum += q.Value() / 512 // page tables
	}
	sum += perCPUOverhead * max(1, VCPUs(d))
	if g := d.Devices.AutoattachGraphicsDevice; g == nil || *g {
		sum += graphicsOverhead
	}
	if vmi.Spec.Architecture == "arm64" {
		sum += armOverhead
	}
	if n := execProbes(&vmi.Spec); n > 0 {
		sum += probeOverhead + n*eachProbe
	}
	if t := d.Devices.TPM; t != nil && (t.Enabled == nil || *t.Enabled) {
		sum += tpmOverhead
	}
	sum += int64(len(d.Devices.Filesystems)) * virtiofsdOverhead
	if isGuaranteed(d) {
		sum += guaranteedExtra
	}
	sriov := slices.ContainsFunc(d.Devices.Interfaces, func(i kubevirt.Interface) bool { return i.SRIOV != nil })
	if sriov || len(d.Devices.GPUs)+len(d.Devices.HostDevices) > 0 {
		sum += vfioOverhead
	}
	if m := d.Memory; m != nil && m.ReservedOverhead != nil && m.ReservedOverhead.AddedOverhead != nil {
		sum += m.ReservedOverhead.AddedOverhead.Value()
	}
	return sum
}

// ClusterOverhead returns an overhead with what the KubeVirt object adds to it: the memory of emulation, and the ratio
// of additionalGuestMemoryOverheadRatio (0: none).
func ClusterOverhead(overhead int64, emulation bool, ratio float64) int64 {
	if emulation {
		overhead += emulationOverhead
	}
	if ratio > 0 {
		overhead = int64(float64(overhead) * ratio)
	}
	return overhead
}

// execProbes counts the probes that run a command in the guest.
func execProbes(spec *kubevirt.VirtualMachineInstanceSpec) int64 {
	var n int64
	for _, p := range []*kubevirt.Probe{spec.LivenessProbe, spec.ReadinessProbe} {
		if p != nil && p.Exec != nil {
			n++
		}
	}
	return n
}

// isGuaranteed reports whether the user asked for the Guaranteed QoS class: by dedicated CPUs, or by limits equal to
// the requests.
func isGuaranteed(d *kubevirt.DomainSpec) bool {
	if d.CPU != nil && d.CPU.DedicatedCPUPlacement {
		return true
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, ok := d.Resources.Limits[name]
		if !ok {
			return false
		}
		if request, ok := d.Resources.Requests[name]; ok && request.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}

// VCPUs returns the number of virtual CPUs of a guest.
func VCPUs(d *kubevirt.DomainSpec) int64 {
	if c := d.CPU; c != nil && (c.Sockets > 0 || c.Cores > 0 || c.Threads > 0) {
		return int64(max(1, c.Sockets)) * int64(max(1, c.Cores)) * int64(max(1, c.Threads))
	}
	for _, list := range []corev1.ResourceList{d.Resources.Limits, d.Resources.Requests} {
		if q, ok := list[corev1.ResourceCPU]; ok {
			return max(1, q.Value())
		}
	}
	return 1
}
