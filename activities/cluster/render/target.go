package render

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/multus"
)

// TargetOptions has what the launcher pod that a guest is moved to depends on beside its VMI and its migration.
type TargetOptions struct {
	Options
	// Source is the pod that the guest is in. Node is Source's, and may be nil unless NeedsNode says so.
	Source *corev1.Pod
	Node   *corev1.Node
	// PreferNode is the node that a person would have ("": none).
	PreferNode string
}

// preferredWeight is the most that a preference can weigh.
const preferredWeight = 100

// TargetName returns the name of the launcher pod that a migration moves the guest of a VMI to: derived from both UIDs,
// so that a migration never has two.
func TargetName(vmiName, vmiUID, migrationUID string) string {
	return PodName(vmiName, vmiUID+"/"+migrationUID)
}

// Target makes the launcher pod that a guest is moved to: that of its VMI (Pod), with the Secret that the source has,
// on another node, which can run the guest as it is. An error names what does not allow that.
func Target(
	vmi *kubevirt.VirtualMachineInstance, migration *kubevirt.VirtualMachineInstanceMigration, o TargetOptions,
) (*corev1.Pod, error) {
	pod, err := Pod(withMACs(vmi), o.Options)
	if err != nil {
		return nil, err
	}
	pod.Name = TargetName(vmi.Name, string(vmi.UID), string(migration.UID))
	pod.Labels[contract.LabelMigration] = string(migration.UID)
	pod.Annotations[contract.AnnotationMigrationName] = migration.Name
	selector, err := asOnSource(vmi, o)
	if err != nil {
		return nil, err
	}
	for _, more := range []map[string]string{selector, migration.Spec.AddedNodeSelector} {
		for k, v := range more {
			if _, own := pod.Spec.NodeSelector[k]; !own && k != contract.LabelSchedulable {
				pod.Spec.NodeSelector[k] = v
			}
		}
	}
	avoidOtherLaunchers(pod, vmi)
	awaitGuest(&pod.Spec.Containers[0])
	if o.PreferNode != "" {
		preferNode(pod, o.PreferNode)
	}
	pin(pod, o.Source)
	return pod, nil
}

// withMACs returns a copy of the VMI in which interfaces on further networks of Multus, and those of binding plugins,
// have the MAC addresses of the status, unless the spec sets them. A migrated guest keeps its addresses, so the
// target's pod requests the same ones, and lets the guest use them.
func withMACs(vmi *kubevirt.VirtualMachineInstance) *kubevirt.VirtualMachineInstance {
	out := vmi.DeepCopy()
	for i := range out.Spec.Networks {
		n := &out.Spec.Networks[i]
		for j := range out.Spec.Domain.Devices.Interfaces {
			f := &out.Spec.Domain.Devices.Interfaces[j]
			if f.Name != n.Name || f.MacAddress != "" || !multus.Further(n) && f.Binding == nil {
				continue
			}
			for _, known := range out.Status.Interfaces {
				if known.Name == f.Name {
					f.MacAddress = known.MAC
				}
			}
		}
	}
	return out
}

// NeedsNode reports whether the target depends on what the source's node offers: the guest has some of its host's CPU,
// and the source's pod does not say which.
func NeedsNode(vmi *kubevirt.VirtualMachineInstance, o TargetOptions) bool {
	return hostModel(vmi) && !isFormerTarget(o.Source) || mayHaveKVM(o)
}

// mayHaveKVM reports whether the source's node knows whether the guest has KVM: its launcher uses it where there is
// some, and the pod does not ask for it.
func mayHaveKVM(o TargetOptions) bool {
	return o.Settings.UseEmulation && o.Source.Spec.NodeSelector[contract.LabelVirtType] == ""
}

func hostModel(vmi *kubevirt.VirtualMachineInstance) bool {
	cpu := vmi.Spec.Domain.CPU
	return cpu == nil || cpu.Model == "" || cpu.Model == kubevirt.CPUModeHostModel
}

// isFormerTarget reports whether the pod itself was a target of a guest with its host's CPU model.
func isFormerTarget(pod *corev1.Pod) bool {
	for k := range pod.Spec.NodeSelector {
		if strings.HasPrefix(k, kubevirt.SupportedHostModelMigrationCPU) {
			return true
		}
	}
	return false
}

// asOnSource selects nodes on which the guest finds what it got from the host that it was booted on: the CPU model and
// features of host-model, and KVM, which a launcher may have found where it could do without. A guest that was moved
// before has them from that first host, and not from the one that it is on now, which may offer more.
func asOnSource(vmi *kubevirt.VirtualMachineInstance, o TargetOptions) (map[string]string, error) {
	out := map[string]string{}
	for k, v := range o.Source.Spec.NodeSelector {
		if k == contract.LabelVirtType || hostModel(vmi) && ofHostModel(k) {
			out[k] = v
		}
	}
	if !NeedsNode(vmi, o) {
		return out, nil
	}
	if o.Node == nil {
		return nil, fmt.Errorf("node %q, on which the guest is, does not exist", o.Source.Spec.NodeName)
	}
	if v := o.Node.Labels[contract.LabelVirtType]; mayHaveKVM(o) && v == virtTypeKVM {
		out[contract.LabelVirtType] = v
	}
	if !hostModel(vmi) || isFormerTarget(o.Source) {
		return out, nil
	}
	model := ""
	for k, v := range o.Node.Labels {
		if name, ok := strings.CutPrefix(k, kubevirt.HostModelCPULabel); ok {
			model = name
		} else if name, ok := strings.CutPrefix(k, kubevirt.HostModelRequiredFeaturesLabel); ok {
			out[kubevirt.CPUFeatureLabel+name] = v
		} else if strings.HasPrefix(k, kubevirt.CPUModelVendorLabel) {
			out[k] = v
		}
	}
	switch {
	case model == "" && o.Settings.UseEmulation: // nothing is the host's
		return out, nil
	case model == "":
		return nil, fmt.Errorf("node %q does not allow migration with host-model", o.Node.Name)
	}
	out[kubevirt.SupportedHostModelMigrationCPU+model] = "true"
	return out, nil
}

// virtTypeKVM is the value of LabelVirtType of a node whose guests are not emulated.
const virtTypeKVM = "kvm"

func ofHostModel(label string) bool {
	for _, prefix := range []string{
		kubevirt.SupportedHostModelMigrationCPU, kubevirt.CPUFeatureLabel, kubevirt.CPUModelVendorLabel,
	} {
		if strings.HasPrefix(label, prefix) {
			return true
		}
	}
	return false
}

// avoidOtherLaunchers keeps the pod off the nodes that have another launcher pod of the VMI.
func avoidOtherLaunchers(pod *corev1.Pod, vmi *kubevirt.VirtualMachineInstance) {
	if pod.Spec.Affinity.PodAntiAffinity == nil {
		pod.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	list := &pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*list = append(*list, corev1.PodAffinityTerm{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			contract.LabelCreatedBy: string(vmi.UID)}},
		TopologyKey: corev1.LabelHostname,
	})
}

// preferNode has the scheduler prefer a node for the pod.
func preferNode(pod *corev1.Pod, node string) {
	list := &pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	*list = append(*list, corev1.PreferredSchedulingTerm{Weight: preferredWeight, Preference: corev1.NodeSelectorTerm{
		MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}})
}

// pin names each image of a disk by the digest that the source's kubelet has mounted, where it says so: a tag may have
// been moved since. Only kubelets with feature gate ImageVolumeWithDigest do. Everywhere else the launchers compare the
// contents.
func pin(pod, source *corev1.Pod) {
	digests := map[string]string{}
	for _, c := range source.Status.ContainerStatuses {
		for _, m := range c.VolumeMounts {
			if m.VolumeStatus != nil && m.VolumeStatus.Image != nil {
				digests[m.Name] = m.VolumeStatus.Image.ImageRef
			}
		}
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Image == nil {
			continue
		}
		if by, ok := byDigest(v.Image.Reference, digests[v.Name]); ok {
			v.Image.Reference = by
		}
	}
}

// byDigest returns a reference to an image with the digest of an ImageRef, as kubelets report it, in place of its tag.
func byDigest(reference, imageRef string) (string, bool) {
	_, digest, ok := strings.Cut(imageRef, "@") // without one it is an image's ID, which no registry knows
	if !ok || !strings.HasPrefix(digest, "sha256:") {
		return "", false
	}
	name, _, _ := strings.Cut(reference, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	return name + "@" + digest, true
}
