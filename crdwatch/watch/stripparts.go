package watch

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/hardware"
)

// Annotations with which templates of VMs describe them: labels of KubeVirt's metrics.
const (
	AnnotationOS       = "vm.kubevirt.io/os"
	AnnotationWorkload = "vm.kubevirt.io/workload"
	AnnotationFlavor   = "vm.kubevirt.io/flavor"
)

// AnnotationOverhead is hardware.Overhead of an instance. Only the cache has it.
const AnnotationOverhead = "overhead"

// mostText is the number of bytes that are kept of a user's or guest's text for the metrics.
const mostText = 128

// stripTemplate keeps of a VM's template what the metrics need.
func stripTemplate(t *kubevirt.VirtualMachineInstanceTemplateSpec) *kubevirt.VirtualMachineInstanceTemplateSpec {
	if t == nil {
		return nil
	}
	out := &kubevirt.VirtualMachineInstanceTemplateSpec{ObjectMeta: metav1.ObjectMeta{
		Annotations: descriptions(t.ObjectMeta.Annotations)}}
	from, to := &t.Spec.Domain, &out.Spec.Domain
	if m := from.Machine; m != nil {
		to.Machine = &kubevirt.Machine{Type: contract.Cut(m.Type, mostText)}
	}
	if c := from.CPU; c != nil {
		to.CPU = &kubevirt.CPU{Cores: c.Cores, Sockets: c.Sockets, Threads: c.Threads}
	}
	if m := from.Memory; m != nil {
		to.Memory = &kubevirt.Memory{Guest: m.Guest, Hugepages: m.Hugepages}
	}
	to.Resources.Requests = computeResources(from.Resources.Requests)
	to.Resources.Limits = computeResources(from.Resources.Limits)
	out.Spec.Volumes = stripVolumes(t.Spec.Volumes)
	keepInterfaces(&out.Spec, &t.Spec)
	return out
}

// labelsOf returns the labels of a VM and of its template, whose values win, cut to the limits of metrics.
func labelsOf(vm *kubevirt.VirtualMachine) map[string]string {
	all := map[string]string{}
	maps.Copy(all, vm.Labels)
	if vm.Spec.Template != nil {
		maps.Copy(all, vm.Spec.Template.ObjectMeta.Labels)
	}
	return contract.LimitMetricLabels(all)
}

// computeResources keeps CPUs and memory.
func computeResources(list corev1.ResourceList) corev1.ResourceList {
	var out corev1.ResourceList
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := list[name]; ok {
			if out == nil {
				out = corev1.ResourceList{}
			}
			out[name] = q
		}
	}
	return out
}

// keepInterfaces keeps the interfaces, and the networks that they connect to.
func keepInterfaces(out, spec *kubevirt.VirtualMachineInstanceSpec) {
	for i := range spec.Domain.Devices.Interfaces {
		o := &spec.Domain.Devices.Interfaces[i]
		kept := kubevirt.Interface{Name: contract.Cut(o.Name, mostText), Model: contract.Cut(o.Model, mostText)}
		if o.Binding != nil {
			kept.Binding = &kubevirt.PluginBinding{Name: contract.Cut(o.Binding.Name, mostText)}
		}
		kept.Masquerade, kept.Bridge, kept.SRIOV = o.Masquerade, o.Bridge, o.SRIOV
		out.Domain.Devices.Interfaces = append(out.Domain.Devices.Interfaces, kept)
	}
	for i := range spec.Networks {
		n := &spec.Networks[i]
		kept := kubevirt.Network{Name: contract.Cut(n.Name, mostText)}
		if n.Pod != nil {
			kept.Pod = &kubevirt.PodNetwork{}
		}
		if n.Multus != nil {
			kept.Multus = &kubevirt.MultusNetwork{NetworkName: contract.Cut(n.Multus.NetworkName, mostText)}
		}
		out.Networks = append(out.Networks, kept)
	}
}

// keepParts keeps of an instance what the metrics need of its parts. The overhead of its launcher, before what the
// cluster's settings add, becomes an annotation, so that its inputs need not be kept.
func keepParts(out, vmi *kubevirt.VirtualMachineInstance) {
	keepInterfaces(&out.Spec, &vmi.Spec)
	for key, value := range descriptions(vmi.Annotations) {
		metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value)
	}
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, AnnotationOverhead,
		strconv.FormatInt(hardware.Overhead(vmi), 10))
	for i := range vmi.Status.Interfaces {
		o := &vmi.Status.Interfaces[i]
		out.Status.Interfaces = append(out.Status.Interfaces, kubevirt.VirtualMachineInstanceNetworkInterface{
			Name: o.Name, InterfaceName: contract.Cut(o.InterfaceName, mostText), IP: contract.Cut(o.IP, mostText)})
	}
	g := &vmi.Status.GuestOSInfo
	out.Status.GuestOSInfo = kubevirt.VirtualMachineInstanceGuestOSInfo{
		Name: contract.Cut(g.Name, mostText), KernelRelease: contract.Cut(g.KernelRelease, mostText),
		Machine: contract.Cut(g.Machine, mostText), VersionID: contract.Cut(g.VersionID, mostText),
	}
	if m := vmi.Status.Machine; m != nil {
		out.Status.Machine = &kubevirt.Machine{Type: contract.Cut(m.Type, mostText)}
	}
}

// descriptions keeps the annotations that are labels of metrics.
func descriptions(annotations map[string]string) map[string]string {
	var out map[string]string
	for _, key := range []string{AnnotationOS, AnnotationWorkload, AnnotationFlavor} {
		if value, ok := annotations[key]; ok {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = contract.Cut(value, mostText)
		}
	}
	return out
}

// stripTemplates keeps of the templates of DataVolumes their names, and the sizes that they request.
func stripTemplates(templates []kubevirt.DataVolumeTemplateSpec) []kubevirt.DataVolumeTemplateSpec {
	var out []kubevirt.DataVolumeTemplateSpec
	for i := range templates {
		t := &templates[i]
		kept := kubevirt.DataVolumeTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: t.Name}}
		var requests corev1.ResourceList
		switch {
		case t.Spec.PVC != nil:
			requests = t.Spec.PVC.Resources.Requests
		case t.Spec.Storage != nil:
			requests = t.Spec.Storage.Resources.Requests
		}
		if size, ok := requests[corev1.ResourceStorage]; ok {
			kept.Spec.Storage = &cdi.StorageSpec{Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size}}}
		}
		out = append(out, kept)
	}
	return out
}
