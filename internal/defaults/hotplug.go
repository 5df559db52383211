package defaults

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Numbers of KubeVirt's live update configuration and of libvirt.
const (
	defaultHotplugRatio = 4
	maxVCPUs            = 512
	minHotplugMemory    = 1 << 30
	hotplugAlignment    = 2 << 20
	gigantic            = 1 << 30
)

// hotplugLimits sets how far a running VMI may grow, if the cluster lets templates reach running VMIs.
func hotplugLimits(spec *kubevirtv1.VirtualMachineInstanceSpec, cluster Cluster) {
	live := cluster.Configuration.LiveUpdateConfiguration
	if live == nil {
		live = &kubevirtv1.LiveUpdateConfiguration{}
	}
	ratio := uint32(defaultHotplugRatio)
	if live.MaxHotplugRatio > 0 {
		ratio = live.MaxHotplugRatio
	}
	maxSockets(spec.Domain.CPU, live.MaxCpuSockets, ratio)
	m := spec.Domain.Memory
	if m == nil || m.MaxGuest != nil {
		return
	}
	most := live.MaxGuest
	if most == nil && m.Guest != nil {
		most = resource.NewQuantity(m.Guest.Value()*int64(ratio), resource.BinarySI)
	}
	if MemoryCanGrow(spec, most) == nil {
		q := most.DeepCopy()
		m.MaxGuest = &q
	}
}

func maxSockets(cpu *kubevirtv1.CPU, most *uint32, ratio uint32) {
	if cpu.MaxSockets == 0 && most != nil && *most != 0 {
		cpu.MaxSockets = max(*most, cpu.Sockets)
	}
	if cpu.MaxSockets != 0 {
		return
	}
	cpu.MaxSockets = cpu.Sockets * ratio
	if each := cpu.Cores * cpu.Threads; cpu.MaxSockets*each > maxVCPUs {
		cpu.MaxSockets = max(maxVCPUs/each, cpu.Sockets)
	}
}

// MemoryCanGrow returns why memory cannot be plugged into a guest up to most, in KubeVirt's words; nil if it can.
func MemoryCanGrow(spec *kubevirtv1.VirtualMachineInstanceSpec, most *resource.Quantity) error {
	cpu, m := spec.Domain.CPU, spec.Domain.Memory
	alignment := int64(hotplugAlignment)
	if m != nil && m.Hugepages != nil && m.Hugepages.PageSize == "1Gi" {
		alignment = gigantic
	}
	aligned := resource.NewQuantity(alignment, resource.BinarySI)
	switch {
	case cpu != nil && cpu.Realtime != nil:
		return errors.New("Memory hotplug is not compatible with realtime VMs") //nolint:staticcheck // KubeVirt's words
	case cpu != nil && cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil:
		return errors.New("Memory hotplug is not compatible with guest mapping passthrough") //nolint:staticcheck // KubeVirt's words
	case spec.Domain.LaunchSecurity != nil:
		return errors.New("Memory hotplug is not compatible with encrypted VMs") //nolint:staticcheck // KubeVirt's words
	case m == nil || m.Guest == nil:
		return errors.New("Guest memory must be configured when memory hotplug is enabled") //nolint:staticcheck // KubeVirt's words
	case most == nil:
		return errors.New("Max guest memory must be configured when memory hotplug is enabled") //nolint:staticcheck // KubeVirt's words
	case m.Guest.Cmp(*most) > 0:
		return errors.New("Guest memory is greater than the configured maxGuest memory") //nolint:staticcheck // KubeVirt's words
	case m.Guest.Value()%alignment != 0:
		return fmt.Errorf("Guest memory must be %s aligned", aligned) //nolint:staticcheck // KubeVirt's words
	case most.Value()%alignment != 0:
		return fmt.Errorf("MaxGuest must be %s aligned", aligned)
	case spec.Architecture != amd64:
		return errors.New("Memory hotplug is only available for x86_64 VMs") //nolint:staticcheck // KubeVirt's words
	case m.Guest.Value() < minHotplugMemory:
		return errors.New("Memory hotplug is only available for VMs with at least 1Gi of guest memory") //nolint:staticcheck // KubeVirt's words
	default:
		return nil
	}
}
