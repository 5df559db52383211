package manifests

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/contract"
)

// TestControlWorkerCreatesNoDataVolumesFromOtherNamespaces: each change is refused.
func TestControlWorkerCreatesNoDataVolumesFromOtherNamespaces(t *testing.T) {
	p := newPolicies(t, "existing")
	other, own := "other", "default"
	made := func(change func(*cdi.DataVolume)) *cdi.DataVolume {
		vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "web", UID: "uid"}}
		dv := &cdi.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "root",
			Labels: map[string]string{contract.LabelCreatedBy: "uid"},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(vm, kubevirt.VirtualMachineGroupVersionKind)}}}
		if change != nil {
			change(dv)
		}
		return dv
	}
	ask := func(o admission.Operation, dv, old *cdi.DataVolume) error {
		r := request{operation: o, resource: "datavolumes", object: dv}
		if old != nil {
			r.old = old
		}
		return p.ask(r)
	}
	for name, change := range map[string]func(*cdi.DataVolume){
		"as it is": nil,
		"a copy of a claim of its own": func(d *cdi.DataVolume) {
			d.Spec.Source = &cdi.DataVolumeSource{PVC: &cdi.DataVolumeSourcePVC{Namespace: own, Name: "a"}}
		},
	} {
		require.NoError(t, ask(admission.Create, made(change), nil), name)
	}
	for name, change := range map[string]func(*cdi.DataVolume){
		"no owner": func(d *cdi.DataVolume) { d.OwnerReferences = nil },
		"another":  func(d *cdi.DataVolume) { d.OwnerReferences[0].Kind = "Pod" },
		"a DataSource": func(d *cdi.DataVolume) {
			d.Spec.SourceRef = &cdi.DataVolumeSourceRef{Kind: "DataSource", Name: "a"}
		},
		"another's claim": func(d *cdi.DataVolume) {
			d.Spec.Source = &cdi.DataVolumeSource{PVC: &cdi.DataVolumeSourcePVC{Namespace: other, Name: "a"}}
		},
		"another's snapshot": func(d *cdi.DataVolume) {
			d.Spec.Source = &cdi.DataVolumeSource{Snapshot: &cdi.DataVolumeSourceSnapshot{Namespace: other, Name: "a"}}
		},
		"another's by the claim": func(d *cdi.DataVolume) {
			d.Spec.PVC = &corev1.PersistentVolumeClaimSpec{
				DataSourceRef: &corev1.TypedObjectReference{Kind: "X", Name: "a", Namespace: &other}}
		},
		"another's by the storage": func(d *cdi.DataVolume) {
			d.Spec.Storage = &cdi.StorageSpec{
				DataSourceRef: &corev1.TypedObjectReference{Kind: "X", Name: "a", Namespace: &other}}
		},
	} {
		require.ErrorContains(t, ask(admission.Create, made(change), nil), "virtflow-control-worker-datavolumes", name)
	}
	require.Error(t, ask(admission.Update, made(nil), made(nil)))
}
