package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// HostCapabilities has what the launcher's libvirt and QEMU offer guests on one node.
type HostCapabilities struct {
	// VirtType is kvm, or qemu where guests are emulated: the other fields are for that type.
	VirtType     string   `json:"virtType"`
	MachineTypes []string `json:"machineTypes,omitempty"`
	// DeprecatedMachineTypes are those that QEMU has deprecated. They are for the node worker's metrics; no report has
	// them.
	DeprecatedMachineTypes []string `json:"deprecatedMachineTypes,omitempty"`
	// CPUModels are those that a guest can have with all their features.
	CPUModels   []string `json:"cpuModels,omitempty"`
	CPUFeatures []string `json:"cpuFeatures,omitempty"`
	// HostModel is the CPU model that a guest with host-model gets, HostModelFeatures what it requires besides.
	HostModel         string   `json:"hostModel,omitempty"`
	HostModelFeatures []string `json:"hostModelFeatures,omitempty"`
	// TSCFrequency is the frequency of the host's time stamp counter in Hz; 0: not known.
	TSCFrequency uint64 `json:"tscFrequency,omitempty"`
	TSCScalable  bool   `json:"tscScalable,omitempty"`
	// CPUManager is set when the kubelet gives guaranteed pods dedicated CPUs.
	CPUManager bool `json:"cpuManager,omitempty"`
}

// Bounds of a node's report. QEMU knows some 90 machine types and CPU models, and 200 features.
const (
	MostCapabilities  = 512 // of each list
	LongestCapability = 63  // in bytes, as the value of a label
	// MostObsoleteModels bounds what the KubeVirt object names; it is a part of each observation of a node.
	MostObsoleteModels = 64
	longestReportText  = 256
)

// Bounded returns c with its lists and names cut to what a report may have.
func (c HostCapabilities) Bounded() HostCapabilities {
	for _, list := range []*[]string{&c.MachineTypes, &c.DeprecatedMachineTypes, &c.CPUModels, &c.CPUFeatures,
		&c.HostModelFeatures} {
		var kept []string
		for _, name := range (*list)[:min(MostCapabilities, len(*list))] {
			if name != "" && len(name) <= LongestCapability {
				kept = append(kept, name)
			}
		}
		*list = kept
	}
	c.VirtType, c.HostModel = Cut(c.VirtType, LongestCapability), Cut(c.HostModel, LongestCapability)
	return c
}

// Bounded returns r cut to what a report may have: a node's entity keeps it, and carries it from run to run.
func (r NodeReport) Bounded() NodeReport {
	for _, text := range []*string{&r.Incarnation, &r.KVMProblem, &r.Arch, &r.CPUVendor, &r.CPUModel, &r.Version} {
		*text = Cut(*text, longestReportText)
	}
	if r.Capabilities != nil {
		c := r.Capabilities.Bounded()
		r.Capabilities = &c
	}
	return r
}

// LabelVirtType on a node is the type of its guests: kvm or qemu.
const LabelVirtType = "virtflow.io/virt-type"

// LabelCPUManager on a node is "true" where pods can have dedicated CPUs; KubeVirt's.
const LabelCPUManager = "kubevirt.io/cpumanager"

// CapabilityPrefixes returns the prefixes of the labels of a node with what its host offers guests. They are
// KubeVirt's, there are many, and they are written as a whole: a label with such a prefix that the report lacks is
// removed.
func CapabilityPrefixes() []string {
	return []string{
		"cpu-model.node.kubevirt.io/", "cpu-model-migration.node.kubevirt.io/", "cpu-feature.node.kubevirt.io/",
		"cpu-timer.node.kubevirt.io/",
		"host-model-cpu.node.kubevirt.io/", "host-model-required-features.node.kubevirt.io/",
		"machine-type.node.kubevirt.io/",
		"node-labeller.kubevirt.io/obsolete-host-model", LabelVirtType,
	}
}

// IsCapability reports whether a label's key has one of CapabilityPrefixes, or is LabelCPUManager, which is written
// like them.
func IsCapability(key string) bool {
	prefixed := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
	return key == LabelCPUManager || slices.ContainsFunc(CapabilityPrefixes(), prefixed)
}

// CapabilityDigest returns a digest of all capability labels among the given ones: some hundred of them need not be
// sent to be compared. "" means none.
func CapabilityDigest(labels map[string]string) string {
	var lines []string
	//workflowcheck:ignore the lines are sorted before they are used
	for k, v := range labels {
		if IsCapability(k) {
			lines = append(lines, k+"="+v)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:8])
}
