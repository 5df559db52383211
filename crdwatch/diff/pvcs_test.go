package diff

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// TestSendsPVCWithoutDataVolumeToVM: to the VM that has a DataVolume template of its name.
func TestSendsPVCWithoutDataVolumeToVM(t *testing.T) {
	e := newTestDiffer(t)
	vm := &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v", ResourceVersion: "1"}}
	vm.Spec.DataVolumeTemplates = []kubevirt.DataVolumeTemplateSpec{{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}}
	require.NoError(t, e.informers.VMs.GetIndexer().Add(vm))
	sent := func() []contract.DataVolume {
		t.Helper()
		for _, d := range outbox(e).pending["vm/a/web"] {
			if o, ok := d.Payload.(contract.VMObservation); ok {
				delete(outbox(e).pending, "vm/a/web")
				return o.DataVolumes
			}
		}
		return nil
	}
	e.entities.vm.sendChanged("a/web", change)
	require.Equal(t, []contract.DataVolume{{Name: "disk"}}, sent())
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "disk", UID: "c",
		ResourceVersion: "3", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm,
			schema.GroupVersionKind{Group: "cdi.kubevirt.io", Version: "v1beta1", Kind: "DataVolume"})}}}
	set := func() {
		require.NoError(t, e.informers.PVCs.GetStore().Add(stripped(t, claim)))
		e.sendPVC(claim)
	}
	set()
	require.Empty(t, sent(), "a DataVolume is to populate it")
	claim.OwnerReferences, claim.ResourceVersion = controlledBy(vm, "VirtualMachine"), "4"
	set()
	require.Equal(t, []contract.DataVolume{{Name: "disk", Populated: true}}, sent(), "CDI has deleted its DataVolume")
}

// TestSendsPVCToInstancesThatUseIt: the VMs of these instances get it too while it is not bound.
func TestSendsPVCToInstancesThatUseIt(t *testing.T) {
	e := newTestDiffer(t)
	vm := &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v", ResourceVersion: "1"}}
	instance := func(name, claim string) *kubevirt.VirtualMachineInstance {
		vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "i",
			ResourceVersion: "2", OwnerReferences: controlledBy(vm, "VirtualMachine")}}
		vmi.Spec.Volumes = []kubevirt.Volume{{Name: "root"}, {Name: "data", VolumeSource: kubevirt.VolumeSource{
			DataVolume: &kubevirt.DataVolumeSource{Name: claim}}}}
		return stripped(t, vmi)
	}
	require.NoError(t, e.informers.VMs.GetStore().Add(vm))
	require.NoError(t, e.informers.VMIs.GetIndexer().Add(instance("web", "mine")))
	e.entities.vm.sendChanged("a/web", change)
	e.entities.vmi.sendChanged("a/web", change)
	sent := func(workflow string) []contract.VolumeClaim {
		t.Helper()
		for _, d := range outbox(e).pending[workflow] {
			if o, ok := d.Payload.(contract.VMIObservation); ok {
				delete(outbox(e).pending, workflow)
				return o.Claims
			}
		}
		return nil
	}
	require.Equal(t, []contract.VolumeClaim{{Volume: "data", Claim: "mine"}}, sent("vmi/a/web"), "it does not exist")
	require.Empty(t, sent("vm/a/web"))

	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "mine", UID: "c", ResourceVersion: "3"},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	set := func(phase corev1.PersistentVolumeClaimPhase) {
		claim = claim.DeepCopy()
		claim.Status.Phase = phase
		require.NoError(t, e.informers.PVCs.GetStore().Add(stripped(t, claim)))
		e.sendPVC(claim)
	}
	set(corev1.ClaimPending)
	want := []contract.VolumeClaim{{Volume: "data", Claim: "mine", UID: "c", Phase: "Pending"}}
	require.Equal(t, want, sent("vmi/a/web"))
	require.Equal(t, want, sent("vm/a/web"))
	set(corev1.ClaimPending)
	require.Empty(t, sent("vmi/a/web"), "nothing has changed")
	set(corev1.ClaimBound)
	want[0].Phase = "Bound"
	require.Equal(t, want, sent("vmi/a/web"))
	require.Len(t, outbox(e).pending["vm/a/web"], 1)
	require.Empty(t, sent("vm/a/web"), "a bound one is no news of the VM's")

	state := instance("web", "mine")
	yes := true
	state.Spec.Domain.Devices.TPM = &kubevirt.TPMDevice{Persistent: &yes}
	state.Spec.Domain.Firmware = &kubevirt.Firmware{Serial: "long"}
	state = stripped(t, state)
	require.Nil(t, state.Spec.Domain.Firmware.Bootloader)
	require.Empty(t, state.Spec.Domain.Firmware.Serial)
	state.ResourceVersion = "4"
	require.NoError(t, e.informers.VMIs.GetIndexer().Add(state))
	remembers := claim.DeepCopy()
	remembers.Name, remembers.UID = "persistent-state-for-web-v", "s"
	require.NoError(t, e.informers.PVCs.GetStore().Add(stripped(t, remembers)))
	e.sendPVC(remembers)
	require.Equal(t, append(want, contract.VolumeClaim{Volume: "persistent-state-for-this-vm",
		Claim: "persistent-state-for-web-v", UID: "s", Phase: "Bound"}), sent("vmi/a/web"), "what it remembers")

	other := claim.DeepCopy()
	other.Name, other.Namespace = "mine", "b"
	e.sendPVC(other)
	require.Empty(t, outbox(e).pending["vmi/a/web"], "another namespace's")
}
