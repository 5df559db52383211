package node

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/virtflow/virtflow/contract"
)

// Prefixes of the labels with what a node's host offers, as KubeVirt names them.
const (
	cpuModelPrefix          = "cpu-model.node.kubevirt.io/"
	cpuModelMigrationPrefix = "cpu-model-migration.node.kubevirt.io/"
	cpuFeaturePrefix        = "cpu-feature.node.kubevirt.io/"
	hostModelPrefix         = "host-model-cpu.node.kubevirt.io/"
	hostModelFeaturePrefix  = "host-model-required-features.node.kubevirt.io/"
	machineTypePrefix       = "machine-type.node.kubevirt.io/"
	tscFrequency            = "cpu-timer.node.kubevirt.io/tsc-frequency"
	tscScalable             = "cpu-timer.node.kubevirt.io/tsc-scalable"
	obsoleteHostModel       = "node-labeller.kubevirt.io/obsolete-host-model"
)

// isObsolete reports whether a CPU model is too old to offer: the cluster names it, or, where the cluster names none,
// KubeVirt's own list does. The suffix is KubeVirt's, too.
func isObsolete(model string, named []string) bool {
	if len(named) > 0 {
		return slices.Contains(named, model)
	}
	return slices.Contains([]string{
		"486", "pentium", "pentium2", "pentium3", "pentiumpro", "coreduo", "n270", "core2duo", "Conroe", "athlon",
		"phenom",
		"qemu64", "qemu32", "kvm64", "kvm32", "Opteron_G1", "Opteron_G2",
	}, strings.TrimSuffix(model, "-v1"))
}

// isLabelName reports whether a text can be the name in a label's key, or a label's value.
func isLabelName(s string) bool { return s != "" && len(validation.IsValidLabelValue(s)) == 0 }

// CapabilityLabels returns the labels with what a host offers guests, without those that are not valid labels. Obsolete
// are the CPU models that the cluster considers too old; nil: those of KubeVirt's own list.
func CapabilityLabels(c contract.HostCapabilities, obsolete []string) map[string]string {
	out := map[string]string{}
	add := func(prefix string, names ...string) {
		for _, name := range names[:min(len(names), contract.MostCapabilities)] {
			if isLabelName(name) {
				out[prefix+name] = "true"
			}
		}
	}
	models := slices.DeleteFunc(slices.Clone(c.CPUModels), func(m string) bool { return isObsolete(m, obsolete) })
	add(cpuModelPrefix, models...)
	add(cpuModelMigrationPrefix, models...)
	add(cpuFeaturePrefix, c.CPUFeatures...)
	add(machineTypePrefix, c.MachineTypes...)
	add(hostModelPrefix, c.HostModel)
	add(hostModelFeaturePrefix, c.HostModelFeatures...)
	if c.HostModel != "" && isObsolete(c.HostModel, obsolete) {
		out[obsoleteHostModel] = "true"
	} else {
		add(cpuModelMigrationPrefix, c.HostModel)
	}
	if c.TSCFrequency > 0 {
		out[tscFrequency] = strconv.FormatUint(c.TSCFrequency, 10)
		out[tscScalable] = strconv.FormatBool(c.TSCScalable)
	}
	if c.CPUManager {
		out[contract.LabelCPUManager] = "true"
	}
	if isLabelName(c.VirtType) {
		out[contract.LabelVirtType] = c.VirtType
	}
	return out
}

// capabilities returns the labels that are to replace the node's; nil: those are right, or the host's capabilities are
// not known.
func (s *State) capabilities() map[string]string {
	if s.Report == nil || s.Report.Capabilities == nil {
		return nil
	}
	obsolete := s.Node.ObsoleteCPUModels
	if !s.HasChange(contract.ChangeAfterFirst) {
		obsolete = nil
	}
	want := CapabilityLabels(*s.Report.Capabilities, obsolete)
	if contract.CapabilityDigest(want) == s.Node.Capabilities {
		return nil
	}
	return want
}

// isSettled reports whether the node has the labels that it should have.
func (s *State) isSettled() bool { return len(s.labelChanges()) == 0 && s.capabilities() == nil }
