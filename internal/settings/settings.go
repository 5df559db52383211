package settings

import (
	"cmp"
	"runtime"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

// Defaults of KubeVirt 1.9 for fields that the KubeVirt object leaves out.
const (
	defaultCPUAllocationRatio = 10
	defaultMemoryOvercommit   = 100
)

// Settings has the parts of KubeVirt's configuration that virtflow uses.
type Settings struct {
	// Cluster has the settings that defaults and rules use: those of the webhooks, and of the instances that virtflow
	// makes.
	defaults.Cluster
	// Namespace has the KubeVirt object; "": there is none.
	Namespace string
	// UseEmulation runs guests without KVM.
	UseEmulation bool
	// CPUAllocationRatio is the number of virtual CPUs for each CPU that a pod requests.
	CPUAllocationRatio int
	// MemoryOvercommit is the guest memory in percent of what a pod requests.
	MemoryOvercommit int
	// OverheadRatio multiplies the memory that is estimated for QEMU and libvirt; 1 unless set.
	OverheadRatio float64
	// VGAForEFI gives guests that boot by EFI on x86 a VGA display in place of bochs.
	VGAForEFI bool
	// NodeSelectors are added to every launcher pod.
	NodeSelectors map[string]string
	// PullPolicy of the launcher image; "" for the process's own.
	PullPolicy corev1.PullPolicy
	// PullSecrets are the image pull secrets of launcher pods, besides those of their disks. As in KubeVirt they are
	// looked up in the namespace of the pod; the kubelet ignores missing ones.
	PullSecrets []corev1.LocalObjectReference
	// WorkloadUpdates applies to guests with outdated launchers.
	WorkloadUpdates WorkloadUpdates
}

// Default returns the settings without a KubeVirt object.
func Default() Settings {
	return Settings{
		Cluster:            defaults.Cluster{Architecture: runtime.GOARCH},
		CPUAllocationRatio: defaultCPUAllocationRatio, MemoryOvercommit: defaultMemoryOvercommit, OverheadRatio: 1,
		WorkloadUpdates: workloadUpdates(&kubevirt.KubeVirtWorkloadUpdateStrategy{}),
	}
}

// AutoCPULimits returns the selector of the namespaces whose launcher pods get a CPU limit where the VM sets none.
// As in KubeVirt, an empty selector selects all namespaces, and an invalid one none.
func (s Settings) AutoCPULimits() labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(s.Configuration.AutoCPULimitNamespaceLabelSelector)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// From reads a KubeVirt object; nil means that there is none. An invalid value counts as not set.
func From(kv *kubevirt.KubeVirt) Settings {
	s := Default()
	if kv == nil {
		return s
	}
	s.Namespace = kv.Namespace
	// Whatever its value, as in KubeVirt.
	_, s.VGAForEFI = kv.Annotations[kubevirt.VGADisplayForEFIGuestsX86Annotation]
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
