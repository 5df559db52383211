package manifests

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/render"
	"github.com/virtflow/virtflow/internal/settings"
)

// state returns the PVC that the control worker creates for a machine's persistent state, after the API server's
// defaults and admission. Class is the administrator's storage class for it.
func state(t *testing.T, class string) *corev1.PersistentVolumeClaim {
	t.Helper()
	vmi, yes, s := instance(), true, settings.Default()
	vmi.Spec.Domain.Devices.TPM = &kubevirt.TPMDevice{Persistent: &yes}
	s.Configuration.VMStateStorageClass = class
	pvc := render.StateClaim(vmi, s)
	require.NotNil(t, pvc)
	pvc.Finalizers = []string{"kubernetes.io/pvc-protection"}
	return pvc
}

// TestControlWorkerCreatesStatePVCsOnly: each change of the PVC that it creates is refused.
func TestControlWorkerCreatesStatePVCsOnly(t *testing.T) {
	p := newPolicies(t, "existing")
	no, block := false, corev1.PersistentVolumeBlock
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"another name":     func(c *corev1.PersistentVolumeClaim) { c.Name = "database" },
		"no label":         func(c *corev1.PersistentVolumeClaim) { c.Labels = nil },
		"more finalizers":  func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{"example.com/x"} },
		"no owner":         func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = nil },
		"another owner":    func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences[0].Kind = "Pod" },
		"another's kind":   func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences[0].APIVersion = "x.com/v1" },
		"no controller":    func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences[0].Controller = &no },
		"a device":         func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block },
		"a certain volume": func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv-1" },
		"a choice of volumes": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		"a copy": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "database"}
		},
		"a copy from elsewhere": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "database"}
		},
		"another access mode": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		},
		"more": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("11Mi")
		},
	} {
		c := state(t, "")
		change(c)
		require.ErrorContains(t, p.ask(request{operation: admission.Create, resource: "persistentvolumeclaims",
			object: c}), "virtflow-control-worker-claims", name)
	}
	require.ErrorContains(t, p.ask(request{operation: admission.Delete, resource: "persistentvolumeclaims",
		old: state(t, "")}), "virtflow-control-worker-claims")
	require.ErrorContains(t, p.ask(request{operation: admission.Update, resource: "persistentvolumeclaims",
		object: state(t, ""), old: state(t, "")}), "virtflow-control-worker-claims")
}
