package support

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// pciTopology is the only supported layout of PCI ports.
const pciTopology = "v3"

// annotationHooks requests programs beside the launcher that change the machine; injectIstio, as a label or annotation,
// requests Istio's proxy, unless it is "false".
const (
	annotationHooks = "hooks.kubevirt.io/hookSidecars"
	injectIstio     = "sidecar.istio.io/inject"
)

// Metadata returns a cause for each annotation and label of an instance, or of a template for instances, that KubeVirt
// applies and that virtflow cannot ignore without harm. Path is that of the metadata. docs/differences.md lists those
// that can be ignored, because no guest or its data depends on them.
func Metadata(m *metav1.ObjectMeta, path string) []metav1.StatusCause {
	var causes []metav1.StatusCause
	refuseAt := func(field, message string) {
		causes = append(causes, metav1.StatusCause{
			Type: metav1.CauseTypeFieldValueNotSupported, Field: field, Message: field + message,
		})
	}
	refuse := func(name, message string) { refuseAt(path+".annotations["+name+"]", message) }
	// KubeVirt does not boot such a guest: its disks may be those of one that still runs elsewhere.
	if _, set := m.Annotations[kubevirtv1.CreateMigrationTarget]; set {
		refuse(kubevirtv1.CreateMigrationTarget, " is not supported yet: no guest is received from another cluster")
	}
	// Sidecars change a guest's domain and its data, so that it would be another machine.
	if m.Annotations[annotationHooks] != "" {
		refuse(annotationHooks, " is not supported yet: nothing runs beside the launcher")
	}
	// With these, users expect a guest's devices at the addresses of another layout.
	if v := m.Annotations[kubevirtv1.PciTopologyVersionAnnotation]; v != "" && v != pciTopology {
		refuse(kubevirtv1.PciTopologyVersionAnnotation, ": "+v+" is not supported yet (supported: "+pciTopology+")")
	}
	if _, set := m.Annotations[kubevirtv1.PciInterfaceSlotCountAnnotation]; set {
		refuse(kubevirtv1.PciInterfaceSlotCountAnnotation,
			" is not supported yet: ports are laid out as "+pciTopology)
	}
	// Nothing would be injected into a pod that only runs the launcher.
	for _, at := range []struct {
		field string
		in    map[string]string
	}{{".annotations", m.Annotations}, {".labels", m.Labels}} {
		if v, set := at.in[injectIstio]; set && v != "false" {
			refuseAt(path+at.field+"["+injectIstio+"]",
				": "+v+" is not supported yet (supported: false): nothing runs beside the launcher")
		}
	}
	return causes
}
