package support

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// maxTemplates keeps the observation of a VM's DataVolumes within the size limit of a signal.
const maxTemplates = 128

// DataVolumeTemplates returns a cause for each template of a VM in that namespace that would not be filled: a second
// one of a name, and a copy from another namespace, whose data the VM's users might not be permitted to read. CDI would
// check the permissions of the control worker instead. A DataSource of this namespace may name a PVC of any other.
func DataVolumeTemplates(vm *kubevirtv1.VirtualMachine, namespace string) []metav1.StatusCause {
	if vm.Namespace != "" {
		namespace = vm.Namespace
	}
	var causes []metav1.StatusCause
	if n := len(vm.Spec.DataVolumeTemplates); n > maxTemplates {
		return []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueNotSupported, Field: "spec.dataVolumeTemplates",
			Message: fmt.Sprintf("spec.dataVolumeTemplates: more than %d are not supported yet", maxTemplates)}}
	}
	refuse := func(field, message string) {
		causes = append(causes, metav1.StatusCause{
			Type: metav1.CauseTypeFieldValueNotSupported, Field: field, Message: field + message,
		})
	}
	names := map[string]bool{}
	for i := range vm.Spec.DataVolumeTemplates {
		t := &vm.Spec.DataVolumeTemplates[i]
		at := fmt.Sprintf("spec.dataVolumeTemplates[%d]", i)
		if names[t.Name] {
			refuse(at+".metadata.name", ": a second template of the name "+t.Name+" is not supported yet")
		}
		names[t.Name] = true
		if t.Spec.SourceRef != nil {
			refuse(at+".spec.sourceRef", " is not supported yet: give the template the DataSource's source if that is "+
				"in the VM's own namespace, or make the DataVolume yourself, and name it in a volume without a template")
		}
		if field, from := source(&t.Spec); from != "" && from != namespace {
			refuse(at+".spec."+field, ": "+from+" is not supported yet (supported: the VM's own namespace): make the "+
				"DataVolume yourself, and name it in a volume without a template")
		}
	}
	return causes
}

// source returns the namespace from which a DataVolume copies ("": its own, or none), and the field that names it.
func source(s *cdiv1.DataVolumeSpec) (field, namespace string) {
	switch {
	case s.Source != nil && s.Source.PVC != nil:
		return "source.pvc.namespace", s.Source.PVC.Namespace
	case s.Source != nil && s.Source.Snapshot != nil:
		return "source.snapshot.namespace", s.Source.Snapshot.Namespace
	case s.PVC != nil && s.PVC.DataSourceRef != nil && s.PVC.DataSourceRef.Namespace != nil:
		return "pvc.dataSourceRef.namespace", *s.PVC.DataSourceRef.Namespace
	case s.Storage != nil && s.Storage.DataSourceRef != nil && s.Storage.DataSourceRef.Namespace != nil:
		return "storage.dataSourceRef.namespace", *s.Storage.DataSourceRef.Namespace
	default:
		return "", ""
	}
}
