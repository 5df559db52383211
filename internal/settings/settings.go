package settings

import (
	"cmp"
	"runtime"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

// Defaults of KubeVirt 1.9 for what the KubeVirt object leaves out.
const (
	defaultCPUAllocationRatio = 10
	defaultMemoryOvercommit   = 100
)

// Settings are the parts of KubeVirt's configuration that virtflow acts on.
type Settings struct {
	// Cluster is what defaults and rules look at: the webhooks', and those of the instances that virtflow makes.
	defaults.Cluster
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
	// PullPolicy of the launcher image; "" for the process's own.
	PullPolicy corev1.PullPolicy
	// PullSecrets name what launcher pods may pull images with, beside the secrets of their disks. Like KubeVirt's they
	// are looked up in the namespace of the pod; the kubelet passes over one that is not there.
	PullSecrets []corev1.LocalObjectReference
	// WorkloadUpdates is what is done about guests whose launchers are not of the image that new ones get.
	WorkloadUpdates WorkloadUpdates
}

// Default is what holds without a KubeVirt object.
func Default() Settings {
	return Settings{
		Cluster:            defaults.Cluster{Architecture: runtime.GOARCH},
		CPUAllocationRatio: defaultCPUAllocationRatio, MemoryOvercommit: defaultMemoryOvercommit, OverheadRatio: 1,
		WorkloadUpdates: workloadUpdates(&kubevirt.KubeVirtWorkloadUpdateStrategy{}),
	}
}

// From reads a KubeVirt object; nil is none. A value that makes no sense counts as not set.
func From(kv *kubevirt.KubeVirt) Settings {
	s := Default()
	if kv == nil {
		return s
	}
	s.PullSecrets = kv.Spec.ImagePullSecrets
	s.WorkloadUpdates = workloadUpdates(&kv.Spec.WorkloadUpdateStrategy)
	c := &kv.Spec.Configuration
	s.Configuration = *c
	s.Architecture = cmp.Or(kv.Status.DefaultArchitecture, runtime.GOARCH)
	s.PullPolicy = c.ImagePullPolicy
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
