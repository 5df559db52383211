package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

func TestNameTaken(t *testing.T) {
	w := newWorld(t)
	_, vm := w.vm(t)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "another", Namespace: w.ns}}
	owner, err := w.kubernetes.CoreV1().ConfigMaps(w.ns).Create(t.Context(), owner, metav1.CreateOptions{})
	require.NoError(t, err)
	another := *metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	_, err = w.kubevirt.VMIs(w.ns).Create(t.Context(), &kubevirt.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.ns, OwnerReferences: []metav1.OwnerReference{another}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm})
	require.Equal(t, contract.ErrorConflict, errorType(err))
}

// TestAnInstanceThatNobodyControlsIsTakenUp: such as one whose VM was deleted without it, and made again.
func TestAnInstanceThatNobodyControlsIsTakenUp(t *testing.T) {
	w := newWorld(t)
	_, vm := w.vm(t)
	left, err := w.kubevirt.VMIs(w.ns).Create(t.Context(), &kubevirt.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.ns, Finalizers: []string{contract.FinalizerVMI}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for range 2 {
		out, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm})
		require.NoError(t, err)
		require.True(t, out.Existing)
		require.Equal(t, string(left.UID), out.VMI.UID)
		require.Equal(t, vm.UID, out.VMI.OwnerUID)
		require.Equal(t, []string{contract.FinalizerVMI, contract.FinalizerVM}, out.VMI.Finalizers)
	}
}
