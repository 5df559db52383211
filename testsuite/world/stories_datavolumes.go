package world

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/testsuite/kube"
)

// importer simulates CDI: it creates each DataVolume's PVC, and sets this phase, with this error ("": none).
type importer struct {
	phase   cdi.DataVolumePhase
	trouble string
}

// importStories are about VMs whose disks CDI fills.
func importStories() []Scenario {
	return []Scenario{
		{Name: "import-takes-its-time", Story: func(w *World) {
			w.Import(cdi.ImportInProgress, "")
			w.Create(withDataVolume())
			w.waitForStatus(kubevirt.VirtualMachineStatusProvisioning)
			w.Sleep(20 * time.Minute)
			w.Import(cdi.Succeeded, "")
		}, Want: wantRunning(vm)},
		{Name: "import-fails", Story: func(w *World) {
			w.Import(cdi.ImportInProgress, "no such host")
			w.Create(withDataVolume())
			w.waitForStatus(kubevirt.VirtualMachineStatusDataVolumeError)
			w.Import(cdi.Succeeded, "")
		}, Want: wantRunning(vm)},
		{Name: "its-claim-was-there-before-it", Story: func(w *World) {
			w.Import(cdi.ImportInProgress, "") // no DataVolume exists yet
			w.CreateClaim()
			w.BindClaim()
			w.Create(withDataVolume())
		}, Want: wantRunning(vm)},
		{Name: "import-never-ends", Story: func(w *World) {
			w.Import(cdi.ImportInProgress, "")
			w.Create(withDataVolume())
			w.waitForStatus(kubevirt.VirtualMachineStatusProvisioning)
			w.Delete(vm)
		}, Want: wantGone(vm)},
	}
}

// withDataVolume returns a VM with a disk that CDI fills.
func withDataVolume() *kubevirt.VirtualMachine {
	m := withClaim()
	v := &m.Spec.Template.Spec.Volumes[len(m.Spec.Template.Spec.Volumes)-1]
	v.VolumeSource = kubevirt.VolumeSource{DataVolume: &kubevirt.DataVolumeSource{Name: claim}}
	m.Spec.DataVolumeTemplates = []kubevirt.DataVolumeTemplateSpec{{
		ObjectMeta: metav1.ObjectMeta{Name: claim},
		Spec: cdi.DataVolumeSpec{Source: &cdi.DataVolumeSource{HTTP: &cdi.DataVolumeSourceHTTP{URL: "http://a/b"}},
			Storage: &cdi.StorageSpec{}},
	}}
	return m
}

// Import sets the phase that CDI gives all DataVolumes from now on, with an error ("": none).
func (w *World) Import(phase cdi.DataVolumePhase, trouble string) {
	w.cdi = importer{phase: phase, trouble: trouble}
	w.importAll()
}

func (w *World) importAll() {
	for _, dv := range kube.List[cdi.DataVolume](w.Kube, Namespace) {
		if kube.Get[corev1.PersistentVolumeClaim](w.Kube, Namespace, dv.Name) == nil {
			_, _ = kube.Put(w.Kube, &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: dv.Name,
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(dv, schema.GroupVersionKind{
						Group: cdi.SchemeGroupVersion.Group, Version: cdi.SchemeGroupVersion.Version,
						Kind: "DataVolume"})}},
				Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
			})
		}
		var conditions []cdi.DataVolumeCondition
		if w.cdi.trouble != "" {
			conditions = []cdi.DataVolumeCondition{{Type: cdi.DataVolumeRunning, Status: corev1.ConditionFalse,
				Reason: "Error", Message: w.cdi.trouble}}
		}
		if dv.Status.Phase == w.cdi.phase && len(dv.Status.Conditions) == len(conditions) {
			continue
		}
		_, _ = kube.Edit(w.Kube, Namespace, dv.Name, "", func(dv *cdi.DataVolume) {
			dv.Status.Phase, dv.Status.Conditions = w.cdi.phase, conditions
		})
	}
}
