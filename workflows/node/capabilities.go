package node

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Prefixes of the labels that say what a node's host offers, as KubeVirt names them.
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

// maxCapabilities bounds each list; QEMU knows some 90 machine types and CPU models, and 200 features.
const maxCapabilities = 512

// obsolete says that KubeVirt takes a CPU model for too old to offer it; the list is its own, and so is the suffix.
func obsolete(model string) bool {
	return slices.Contains([]string{
		"486", "pentium", "pentium2", "pentium3", "pentiumpro", "coreduo", "n270", "core2duo", "Conroe", "athlon",
		"phenom",
		"qemu64", "qemu32", "kvm64", "kvm32", "Opteron_G1", "Opteron_G2",
	}, strings.TrimSuffix(model, "-v1"))
}

// labelName says whether something can be the name in a label's key, or its value.
func labelName(s string) bool { return s != "" && len(validation.IsValidLabelValue(s)) == 0 }

// CapabilityLabels are the labels that say what a host offers guests. What cannot be part of a label is left out.
func CapabilityLabels(c contract.HostCapabilities) map[string]string {
	out := map[string]string{}
	add := func(prefix string, names ...string) {
		for _, name := range names[:min(len(names), maxCapabilities)] {
			if labelName(name) {
				out[prefix+name] = "true"
			}
		}
	}
	models := slices.DeleteFunc(slices.Clone(c.CPUModels), obsolete)
	add(cpuModelPrefix, models...)
	add(cpuModelMigrationPrefix, models...)
	add(cpuFeaturePrefix, c.CPUFeatures...)
	add(machineTypePrefix, c.MachineTypes...)
	add(hostModelPrefix, c.HostModel)
	add(hostModelFeaturePrefix, c.HostModelFeatures...)
	if c.HostModel != "" && obsolete(c.HostModel) {
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
	if labelName(c.VirtType) {
		out[contract.LabelVirtType] = c.VirtType
	}
	return out
}

// capabilities are the labels that are to replace those which the node has; nil: they are as they should be, or nothing
// is known.
func (s *State) capabilities() map[string]string {
	if s.Report == nil || s.Report.Capabilities == nil {
		return nil
	}
	want := CapabilityLabels(*s.Report.Capabilities)
	if contract.CapabilityDigest(want) == s.Node.Capabilities {
		return nil
	}
	return want
}

// settled says that the node carries the labels that it should.
func (s *State) settled() bool { return len(s.changes()) == 0 && s.capabilities() == nil }
