package defaults

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// Cluster has the parts of the KubeVirt configuration that defaults and validation need. Package settings reads it.
type Cluster struct {
	Configuration kubevirtv1.KubeVirtConfiguration
	// Architecture is the default for a VM without one.
	Architecture string
}

// LiveUpdate reports whether changes of a running VM's template must reach its VMI; KubeVirt's default is yes.
func (c Cluster) LiveUpdate() bool {
	s := c.Configuration.VMRolloutStrategy
	return s == nil || *s == kubevirtv1.VMRolloutStrategyLiveUpdate
}

// MachineType returns the machine type of a VM without one.
func (c Cluster) MachineType(arch string) string {
	if c.Configuration.MachineType != "" {
		return c.Configuration.MachineType
	}
	if s := c.archConfiguration(arch); s != nil && s.MachineType != "" {
		return s.MachineType
	}
	switch arch {
	case arm64:
		return "virt"
	case s390x:
		return "s390-ccw-virtio"
	default:
		return "q35"
	}
}

// EmulatedMachines returns the patterns that a machine type must match.
func (c Cluster) EmulatedMachines(arch string) []string {
	if c.Configuration.EmulatedMachines != nil {
		return c.Configuration.EmulatedMachines
	}
	if s := c.archConfiguration(arch); s != nil && len(s.EmulatedMachines) > 0 {
		return s.EmulatedMachines
	}
	switch arch {
	case arm64:
		return []string{"virt*"}
	case s390x:
		return []string{"s390-ccw-virtio*"}
	default:
		return []string{"q35*", "pc-q35*"}
	}
}

func (c Cluster) archConfiguration(arch string) *kubevirtv1.ArchSpecificConfiguration {
	a := c.Configuration.ArchitectureConfiguration
	if a == nil {
		return nil
	}
	switch arch {
	case arm64:
		return a.Arm64
	case s390x:
		return a.S390x
	default:
		return a.Amd64
	}
}

// BridgeOnPodNetwork reports whether bridge interfaces may use the pod network; KubeVirt's default is yes.
func (c Cluster) BridgeOnPodNetwork() bool {
	n := c.Configuration.NetworkConfiguration
	return n == nil || n.PermitBridgeInterfaceOnPodNetwork == nil || *n.PermitBridgeInterfaceOnPodNetwork
}

func (c Cluster) defaultInterface() string {
	if n := c.Configuration.NetworkConfiguration; n != nil && n.NetworkInterface != "" {
		return n.NetworkInterface
	}
	return "bridge"
}

// EvictionStrategy returns the eviction strategy of a VM that names none.
func (c Cluster) EvictionStrategy() kubevirtv1.EvictionStrategy {
	if s := c.Configuration.EvictionStrategy; s != nil {
		return *s
	}
	return kubevirtv1.EvictionStrategyNone
}

// DrainTaint returns the key of the taint of a node that all its guests are to leave. A key that no taint can have
// counts as not set.
func (c Cluster) DrainTaint() string {
	m := c.Configuration.MigrationConfiguration
	if m == nil || m.NodeDrainTaintKey == nil || len(content.IsLabelKey(*m.NodeDrainTaintKey)) > 0 {
		return contract.TaintDrain
	}
	return *m.NodeDrainTaintKey
}

// ObsoleteCPUModels returns the CPU models that nodes are not to offer, sorted; nil: KubeVirt's own list applies. As in
// KubeVirt, a model counts whatever its value.
func (c Cluster) ObsoleteCPUModels() []string {
	var out []string
	for model := range c.Configuration.ObsoleteCPUModels {
		if model != "" && len(model) <= contract.LongestCapability {
			out = append(out, model)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), contract.MostObsoleteModels)]
}

// Architectures, by their Go names.
const (
	amd64 = "amd64"
	arm64 = "arm64"
	s390x = "s390x"
)
