package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// HostCapabilities is what the launcher's libvirt and QEMU offer guests on one node.
type HostCapabilities struct {
	// VirtType is kvm, or qemu where guests are emulated: what follows is what that offers.
	VirtType     string   `json:"virtType"`
	MachineTypes []string `json:"machineTypes,omitempty"`
	// CPUModels are those that a guest can have whole.
	CPUModels   []string `json:"cpuModels,omitempty"`
	CPUFeatures []string `json:"cpuFeatures,omitempty"`
	// HostModel is the CPU model that a guest gets which asks for the host's, HostModelFeatures what it needs beside.
	HostModel         string   `json:"hostModel,omitempty"`
	HostModelFeatures []string `json:"hostModelFeatures,omitempty"`
	// TSCFrequency is that of the host's time stamp counter in Hz; 0: not known.
	TSCFrequency uint64 `json:"tscFrequency,omitempty"`
	TSCScalable  bool   `json:"tscScalable,omitempty"`
	// CPUManager says that the kubelet gives guaranteed pods CPUs of their own.
	CPUManager bool `json:"cpuManager,omitempty"`
}

// LabelVirtType on a node says how guests run there: kvm or qemu.
const LabelVirtType = "virtflow.io/virt-type"

// LabelCPUManager on a node is "true" where pods can have CPUs of their own; KubeVirt's.
const LabelCPUManager = "kubevirt.io/cpumanager"

// CapabilityPrefixes begin the labels of a node that say what its host offers guests. They are KubeVirt's, they are
// many, and they are written as a whole: a label with one of these prefixes that is not called for is removed.
func CapabilityPrefixes() []string {
	return []string{
		"cpu-model.node.kubevirt.io/", "cpu-model-migration.node.kubevirt.io/", "cpu-feature.node.kubevirt.io/",
		"cpu-timer.node.kubevirt.io/",
		"host-model-cpu.node.kubevirt.io/", "host-model-required-features.node.kubevirt.io/",
		"machine-type.node.kubevirt.io/",
		"node-labeller.kubevirt.io/obsolete-host-model", LabelVirtType,
	}
}

// IsCapability says that a label's key has one of CapabilityPrefixes, or is LabelCPUManager, which is written like
// them.
func IsCapability(key string) bool {
	prefixed := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
	return key == LabelCPUManager || slices.ContainsFunc(CapabilityPrefixes(), prefixed)
}

// CapabilityDigest stands for all capability labels among the given ones: some hundred of them need not travel to be
// compared. "" is none.
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
