package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtflow/virtflow/contract"
)

// TestReadsCurrentState: an entity without memory learns of everything that is its own, and of nothing else.
func TestReadsCurrentState(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	made, vm := w.vm(t)
	read, err := w.ReadVM(ctx, contract.ReadVMInput{VM: vm})
	require.NoError(t, err)
	require.Equal(t, vm.UID, read.VM.UID)
	require.False(t, read.VM.Reported, "no entity has written its status")
	require.Nil(t, read.VMI)
	w.calls(t, "GET virtualmachines", "GET virtualmachineinstances")

	created, err := w.CreateVMI(ctx, contract.CreateVMIInput{VM: vm, Generation: made.Generation})
	require.NoError(t, err)
	vmi := contract.Object{Namespace: w.ns, Name: "web", UID: created.VMI.UID}
	pod, err := w.CreateLauncherPod(ctx, contract.CreatePodInput{VMI: vmi})
	require.NoError(t, err)
	_, err = w.kubevirt.VMs(w.ns).
		Patch(ctx, vm.Name, types.MergePatchType, []byte(`{"status":{"printableStatus":"Starting"}}`),
			metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	read, err = w.ReadVM(ctx, contract.ReadVMInput{VM: vm})
	require.NoError(t, err)
	require.True(t, read.VM.Reported)
	require.Equal(t, vmi.UID, read.VMI.UID)
	require.Equal(t, vm.UID, read.VMI.OwnerUID)
	one, err := w.ReadVMI(ctx, contract.ReadVMIInput{VMI: vmi})
	require.NoError(t, err)
	require.Equal(t, vmi.UID, one.VMI.UID)
	require.Len(t, one.Pods(), 1)
	require.Equal(t, pod.Pod.UID, one.Pods()[0].UID)

	// Another client has removed the reference: it is the VM's still, by the revision that it was made from.
	w.disown(t, vm.Name)
	read, err = w.ReadVM(ctx, contract.ReadVMInput{VM: vm})
	require.NoError(t, err)
	require.NotNil(t, read.VMI)

	// Neither is what another object of the name has.
	other := vm
	other.UID = "ffffffff-0000-4000-8000-000000000000"
	read, err = w.ReadVM(ctx, contract.ReadVMInput{VM: other})
	require.NoError(t, err)
	require.Nil(t, read.VM)
	require.Nil(t, read.VMI)
	vmi.UID = other.UID
	one, err = w.ReadVMI(ctx, contract.ReadVMIInput{VMI: vmi})
	require.NoError(t, err)
	require.Nil(t, one.VMI)
	require.Empty(t, one.Pods())
}
