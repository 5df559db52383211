package settings

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

// Defaults of KubeVirt 1.9 for what the KubeVirt object leaves out.
const (
	defaultCPUAllocationRatio = 10
	defaultMemoryOvercommit   = 100
)

// Settings are the parts of KubeVirt's configuration that virtflow acts on.
type Settings struct {
	// UseEmulation runs guests without KVM.
	UseEmulation bool
	// CPUAllocationRatio is how many virtual CPUs share one CPU that a pod requests.
	CPUAllocationRatio int
	// MemoryOvercommit is the guest memory in percent of what a pod requests.
	MemoryOvercommit int
	// OverheadRatio multiplies the memory reckoned for QEMU and libvirt; 1 unless set.
	OverheadRatio float64
	// NodeSelectors are added to every launcher pod.
	NodeSelectors map[string]string
	// MachineType is what VMs without one get; "" for the default of their architecture.
	MachineType string
	// PullPolicy of the launcher image; "" for the process's own.
	PullPolicy corev1.PullPolicy
	// PullSecrets name what launcher pods may pull images with, beside the secrets of their disks. Like KubeVirt's they are looked up in
	// the namespace of the pod; the kubelet passes over one that is not there.
	PullSecrets []corev1.LocalObjectReference
	// LiveUpdate is the rollout strategy under which a running VMI follows its VM where it can; otherwise it is Stage.
	LiveUpdate bool
	// EvictionStrategy of VMIs without one.
	EvictionStrategy *kubevirt.EvictionStrategy
}

// Default is what holds without a KubeVirt object.
func Default() Settings {
	return Settings{CPUAllocationRatio: defaultCPUAllocationRatio, MemoryOvercommit: defaultMemoryOvercommit, OverheadRatio: 1, LiveUpdate: true}
}

// From reads a KubeVirt object; nil is none. A value that makes no sense counts as not set.
func From(kv *kubevirt.KubeVirt) Settings {
	s := Default()
	if kv == nil {
		return s
	}
	s.PullSecrets = kv.Spec.ImagePullSecrets
	c := &kv.Spec.Configuration
	s.MachineType = c.MachineType
	s.PullPolicy = c.ImagePullPolicy
	s.EvictionStrategy = c.EvictionStrategy
	s.LiveUpdate = c.VMRolloutStrategy == nil || *c.VMRolloutStrategy == kubevirt.VMRolloutStrategyLiveUpdate
	if r := c.AdditionalGuestMemoryOverheadRatio; r != nil {
		if f, err := strconv.ParseFloat(*r, 64); err == nil && f > 0 {
			s.OverheadRatio = f
		}
	}
	if d := c.DeveloperConfiguration; d != nil {
		s.UseEmulation = d.UseEmulation
		s.NodeSelectors = d.NodeSelectors
		if d.CPUAllocationRatio > 0 {
			s.CPUAllocationRatio = d.CPUAllocationRatio
		}
		if d.MemoryOvercommit > 0 {
			s.MemoryOvercommit = d.MemoryOvercommit
		}
	}
	return s
}
