package render

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/bindings"
	"github.com/virtflow/virtflow/internal/hardware"
	"github.com/virtflow/virtflow/internal/settings"
)

const mi = 1 << 20

// diskSlack is added to what the user asks of local storage for logs, sockets and overlays' metadata: KubeVirt's 50M.
const diskSlack = 50_000_000

// Extended resources that the node worker's device plugins offer.
const (
	deviceKVM      corev1.ResourceName = "devices.kubevirt.io/kvm"
	deviceTun      corev1.ResourceName = "devices.kubevirt.io/tun"
	deviceVhostNet corev1.ResourceName = "devices.kubevirt.io/vhost-net"
)

// resources of the compute container. What the user asked for explicitly counts; a limit is set only where the user set
// one.
func resources(vmi *kubevirt.VirtualMachineInstance, s settings.Settings) corev1.ResourceRequirements {
	user := vmi.Spec.Domain.Resources
	r := corev1.ResourceRequirements{Requests: user.Requests.DeepCopy(), Limits: user.Limits.DeepCopy(),
		Claims: claimed(vmi)}
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	if r.Limits == nil {
		r.Limits = corev1.ResourceList{}
	}
	if _, ok := r.Requests[corev1.ResourceCPU]; !ok {
		if _, limited := r.Limits[corev1.ResourceCPU]; !limited {
			r.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(threads(vmi)*1000/int64(s.CPUAllocationRatio),
				resource.DecimalSI)
		}
	}
	overhead := Overhead(vmi, s)
	request := guestMemory(vmi, s)
	if !user.OvercommitGuestOverhead {
		request += overhead
	}
	r.Requests[corev1.ResourceMemory] = *resource.NewQuantity(request, resource.BinarySI)
	if limit, ok := user.Limits[corev1.ResourceMemory]; ok {
		r.Limits[corev1.ResourceMemory] = *resource.NewQuantity(limit.Value()+overhead, resource.BinarySI)
	}
	if m := vmi.Spec.Domain.Memory; m != nil && m.Hugepages != nil {
		hugepages(r, vmi, overhead, s)
	}
	if hasDedicatedCPUs(vmi) {
		ownCPUs(r, vmi)
	}
	for _, name := range hostDevices(&vmi.Spec.Domain) {
		n := r.Limits[name]
		n.Add(resource.MustParse("1"))
		r.Limits[name] = n
	}
	slack := *resource.NewQuantity(diskSlack, resource.DecimalSI)
	storage := r.Requests[corev1.ResourceEphemeralStorage]
	storage.Add(slack)
	r.Requests[corev1.ResourceEphemeralStorage] = storage
	if limit, ok := r.Limits[corev1.ResourceEphemeralStorage]; ok {
		limit.Add(slack)
		r.Limits[corev1.ResourceEphemeralStorage] = limit
	}
	if !s.UseEmulation {
		r.Limits[deviceKVM] = resource.MustParse("1")
	}
	if !s.UseEmulation && slices.ContainsFunc(vmi.Spec.Domain.Devices.Interfaces, isVirtio) {
		r.Limits[deviceVhostNet] = resource.MustParse("1")
	}
	// Also without an interface: it is what only a node with a node worker has.
	r.Limits[deviceTun] = resource.MustParse("1")
	return r
}

// isVirtio reports whether the kernel can move an interface's packets.
func isVirtio(i kubevirt.Interface) bool { return i.Model == "" || i.Model == kubevirt.VirtIO }

// hugepages asks for them in place of the guest's memory.
func hugepages(
	r corev1.ResourceRequirements, vmi *kubevirt.VirtualMachineInstance, overhead int64, s settings.Settings,
) {
	m := vmi.Spec.Domain.Memory
	request := guestMemory(vmi, s)
	guest := request
	if m.Guest != nil {
		guest = m.Guest.Value()
	}
	name := corev1.ResourceName(corev1.ResourceHugePagesPrefix + m.Hugepages.PageSize)
	pages := *resource.NewQuantity(guest, resource.BinarySI)
	r.Requests[name], r.Limits[name] = pages, pages
	rest := *resource.NewQuantity(overhead+max(0, request-guest), resource.BinarySI)
	r.Requests[corev1.ResourceMemory] = rest
	if _, ok := r.Limits[corev1.ResourceMemory]; ok {
		r.Limits[corev1.ResourceMemory] = rest
	}
}

func hasDedicatedCPUs(vmi *kubevirt.VirtualMachineInstance) bool {
	c := vmi.Spec.Domain.CPU
	return c != nil && c.DedicatedCPUPlacement
}

// ownCPUs asks for what makes a kubelet give a container CPUs for itself: a whole number of them, in a pod whose
// requests are its limits: those of the guest, and one for each I/O thread of a supplemental pool. An isolated emulator
// has one more, or two where the annotation requires an even sum.
func ownCPUs(r corev1.ResourceRequirements, vmi *kubevirt.VirtualMachineInstance) {
	n := threads(vmi)
	if vmi.Spec.Domain.CPU.IsolateEmulatorThread {
		n++
		if _, even := vmi.Annotations[kubevirt.EmulatorThreadCompleteToEvenParity]; even {
			n += n % 2
		}
	}
	cpus := *resource.NewQuantity(n, resource.DecimalSI)
	r.Requests[corev1.ResourceCPU], r.Limits[corev1.ResourceCPU] = cpus, cpus
	if limit, ok := r.Limits[corev1.ResourceMemory]; ok {
		r.Requests[corev1.ResourceMemory] = limit
	} else {
		r.Limits[corev1.ResourceMemory] = r.Requests[corev1.ResourceMemory]
	}
}

// memoryLimitRatio is the memory that a launcher may use, as a multiple of what it requests, unless the namespace sets
// another ratio. The figure is KubeVirt's.
const memoryLimitRatio = 2

// Limited has the resources for which a pod has limits although its user sets none: a quota of the namespace asks for
// them, or the KubeVirt object does.
type Limited struct {
	CPU, Memory bool
	// Ratio is the namespace's own between the limit and the request of memory; 0: it has none.
	Ratio float64
}

// LimitedBy returns the resources for which a namespace's quotas ask for limits.
func LimitedBy(quotas []corev1.ResourceQuota) Limited {
	var l Limited
	for i := range quotas {
		_, cpu := quotas[i].Spec.Hard[corev1.ResourceLimitsCPU]
		_, memory := quotas[i].Spec.Hard[corev1.ResourceLimitsMemory]
		l.CPU, l.Memory = l.CPU || cpu, l.Memory || memory
	}
	return l
}

// WithRatio returns a copy with the ratio that a namespace's labels name. As with KubeVirt, a ratio that is not a
// number, or below 1, is ignored.
func (l Limited) WithRatio(labels map[string]string) Limited {
	if ratio, err := strconv.ParseFloat(labels[kubevirt.AutoMemoryLimitsRatioLabel], 64); err == nil && ratio >= 1 {
		l.Ratio = ratio
	}
	return l
}

// Or returns the limits of both.
func (l Limited) Or(o Limited) Limited {
	return Limited{CPU: l.CPU || o.CPU, Memory: l.Memory || o.Memory, Ratio: cmp.Or(l.Ratio, o.Ratio)}
}

// apply sets the limits that are asked for and that the user has not set, as KubeVirt does: a CPU for each of the
// guest's threads, and a multiple of the memory. A limit is never less than the request: the API server refuses such a
// pod.
func (l Limited) apply(
	r corev1.ResourceRequirements, vmi *kubevirt.VirtualMachineInstance,
) corev1.ResourceRequirements {
	if _, set := r.Limits[corev1.ResourceCPU]; l.CPU && !set {
		limit := *resource.NewQuantity(threads(vmi), resource.DecimalSI)
		if request := r.Requests[corev1.ResourceCPU]; request.Cmp(limit) > 0 {
			limit = request
		}
		r.Limits[corev1.ResourceCPU] = limit
	}
	if _, set := r.Limits[corev1.ResourceMemory]; l.Memory && !set {
		r.Limits[corev1.ResourceMemory] = *resource.NewQuantity(times(r.Requests.Memory().Value(), l.Ratio),
			resource.BinarySI)
	}
	return r
}

// times returns a request of memory multiplied by a ratio (0: KubeVirt's), in bytes; what no pod can have is the most
// there is.
func times(request int64, ratio float64) int64 {
	product := float64(request) * cmp.Or(ratio, memoryLimitRatio)
	if product >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(product)
}

// guestMemory returns the memory requested for the guest itself, in bytes.
func guestMemory(vmi *kubevirt.VirtualMachineInstance, s settings.Settings) int64 {
	d := &vmi.Spec.Domain
	if q, ok := d.Resources.Requests[corev1.ResourceMemory]; ok {
		return q.Value()
	}
	if q, ok := d.Resources.Limits[corev1.ResourceMemory]; ok {
		return q.Value()
	}
	if d.Memory == nil || d.Memory.Guest == nil {
		return 0
	}
	return d.Memory.Guest.Value() * 100 / int64(s.MemoryOvercommit)
}

// Overhead returns the memory that a launcher needs beside its guest, in bytes.
func Overhead(vmi *kubevirt.VirtualMachineInstance, s settings.Settings) int64 {
	return hardware.ClusterOverhead(hardware.Overhead(vmi), s.UseEmulation, s.OverheadRatio) +
		bindings.From(&s.Configuration).Memory(vmi.Spec.Domain.Devices.Interfaces)
}

// threads returns the virtual CPUs, and the I/O threads of a supplemental pool.
func threads(vmi *kubevirt.VirtualMachineInstance) int64 {
	return hardware.VCPUs(&vmi.Spec.Domain) + int64(hardware.SupplementalPool(&vmi.Spec.Domain))
}
