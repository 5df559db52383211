package domain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/internal/hardware"
)

// HostCPU is a logical CPU of the host. CPUs of one core have the same Core, and cores of one NUMA node the same Node.
// Core numbers differ between nodes.
type HostCPU struct{ ID, Core, Node int }

// mostEmulatorCPUs is the most CPUs that an isolated emulator gets: two where that makes the sum even.
const mostEmulatorCPUs = 2

// pin gives each virtual CPU that is present a host CPU of its own, in a guest with dedicated CPUs, and each I/O thread
// of a supplemental pool another.
func pin(d *libvirtxml.Domain, in Input, present int) error {
	c := in.VMI.Spec.Domain.CPU
	if c == nil || !c.DedicatedCPUPlacement {
		return nil
	}
	pool := int(hardware.SupplementalPool(&in.VMI.Spec.Domain))
	guest, rest, err := share(in.CPUs, present, pool, max(1, int(c.Threads)), c.IsolateEmulatorThread)
	if err != nil {
		return err
	}
	d.CPUTune = &libvirtxml.DomainCPUTune{}
	for i, cpu := range guest {
		d.CPUTune.VCPUPin = append(d.CPUTune.VCPUPin,
			libvirtxml.DomainCPUTuneVCPUPin{VCPU: count(i), CPUSet: strconv.Itoa(cpu.ID)})
	}
	for i, cpu := range rest[:pool] {
		d.CPUTune.IOThreadPin = append(d.CPUTune.IOThreadPin,
			libvirtxml.DomainCPUTuneIOThreadPin{IOThread: count(i + 1), CPUSet: strconv.Itoa(cpu.ID)})
	}
	if rest = rest[pool:]; c.IsolateEmulatorThread {
		emulator := list(rest, func(cpu HostCPU) int { return cpu.ID })
		d.CPUTune.EmulatorPin = &libvirtxml.DomainCPUTuneEmulatorPin{CPUSet: emulator}
		for i := uint(pool); i < d.IOThreads; i++ {
			d.CPUTune.IOThreadPin = append(d.CPUTune.IOThreadPin,
				libvirtxml.DomainCPUTuneIOThreadPin{IOThread: i + 1, CPUSet: emulator})
		}
	}
	if c.NUMA != nil && c.NUMA.GuestMappingPassthrough != nil {
		return mapNUMA(d, in.VMI.Spec.Domain.Memory, guest)
	}
	return nil
}

// share divides the launcher's CPUs between virtual CPUs, in their order, a pool of I/O threads and the emulator: rest
// begins with the pool's. Virtual CPUs that are threads of one core get threads of one core, as long as there are whole
// cores; NUMA nodes are filled one after the other.
//
// It fails if the launcher may run on more CPUs than its pod has requested: then its node does not assign dedicated
// CPUs, and the launcher shares them with other pods.
func share(cpus []HostCPU, present, pool, threads int, isolate bool) (guest, rest []HostCPU, _ error) {
	least := present + pool
	most := least
	if isolate {
		least, most = least+1, most+mostEmulatorCPUs
	}
	switch {
	case len(cpus) < least:
		return nil, nil, fmt.Errorf("spec.domain.cpu.dedicatedCpuPlacement: the guest needs %d dedicated CPUs, the "+
			"pod has %d on this node", least, len(cpus))
	case len(cpus) > most:
		return nil, nil, fmt.Errorf("spec.domain.cpu.dedicatedCpuPlacement: the pod shares the node's %d CPUs with "+
			"others: set the kubelet's CPU manager to the policy static", len(cpus))
	}
	ofCore := map[int]int{}
	for _, cpu := range cpus {
		ofCore[cpu.Core]++
	}
	sorted := slices.SortedFunc(slices.Values(cpus), func(a, b HostCPU) int {
		split := func(cpu HostCPU) int { return ofCore[cpu.Core] % threads }
		return cmp.Or(cmp.Compare(split(a), split(b)), cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.Core, b.Core), cmp.Compare(a.ID, b.ID))
	})
	return sorted[:present], sorted[present:], nil
}

// mapNUMA gives the guest NUMA nodes like those of its CPUs, each with a part of its memory, which is allocated there.
func mapNUMA(d *libvirtxml.Domain, memory *v1.Memory, guest []HostCPU) error {
	const field = "spec.domain.memory.hugepages.pageSize"
	if memory == nil || memory.Hugepages == nil {
		return invalid(field, "is required by spec.domain.cpu.numa.guestMappingPassthrough")
	}
	size, err := resource.ParseQuantity(memory.Hugepages.PageSize)
	if err != nil || size.Value() <= 0 {
		return invalid(field, "%q is not a page size", memory.Hugepages.PageSize)
	}
	page := uint(size.Value()) // checked to be positive
	var nodes []int
	cpus := map[int][]int{} // virtual ones, by node
	for i, cpu := range guest {
		if cpus[cpu.Node] == nil {
			nodes = append(nodes, cpu.Node)
		}
		cpus[cpu.Node] = append(cpus[cpu.Node], i)
	}
	pages, cells := d.Memory.Value/page, count(len(nodes))
	if pages < cells {
		return invalid("spec.domain.memory.guest", "%d pages are too few for %d NUMA nodes", pages, cells)
	}
	d.CPU.Numa, d.NUMATune = &libvirtxml.DomainNuma{}, &libvirtxml.DomainNUMATune{
		Memory: &libvirtxml.DomainNUMATuneMemory{Mode: "strict", Nodeset: list(nodes, same)},
	}
	d.MemoryBacking.MemoryAllocation = &libvirtxml.DomainMemoryAllocation{Mode: "immediate"}
	for i, node := range nodes {
		cell := count(i)
		bytes := pages / cells * page
		if cell < pages%cells {
			bytes += page
		}
		d.CPU.Numa.Cell = append(d.CPU.Numa.Cell, libvirtxml.DomainCell{
			ID: &cell, CPUs: list(cpus[node], same), Memory: bytes, Unit: "b",
		})
		d.NUMATune.MemNodes = append(d.NUMATune.MemNodes, libvirtxml.DomainNUMATuneMemNode{
			CellID: cell, Mode: "strict", Nodeset: strconv.Itoa(node),
		})
		d.MemoryBacking.MemoryHugePages.Hugepages = append(d.MemoryBacking.MemoryHugePages.Hugepages,
			libvirtxml.DomainMemoryHugepage{Size: page, Unit: "b", Nodeset: strconv.Itoa(i)})
	}
	d.CPU.Numa.Cell[0].Memory += d.Memory.Value % page
	return nil
}

func same(n int) int { return n }

// list formats numbers as libvirt parses them.
func list[T any](all []T, number func(T) int) string {
	words := make([]string, 0, len(all))
	for _, one := range all {
		words = append(words, strconv.Itoa(number(one)))
	}
	return strings.Join(words, ",")
}
