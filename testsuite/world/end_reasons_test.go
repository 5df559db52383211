package world

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubevirt "kubevirt.io/api/core/v1"

	crdkube "github.com/virtflow/virtflow/internal/kube"
)

func TestReasonOfVM(t *testing.T) {
	machine := func(change func(*kubevirt.VirtualMachine)) *kubevirt.VirtualMachine {
		always := kubevirt.RunStrategyAlways
		m := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{UID: "vm"},
			Spec: kubevirt.VirtualMachineSpec{RunStrategy: &always}}
		change(m)
		return m
	}
	yes := true
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
		UID: "vmi", OwnerReferences: []metav1.OwnerReference{{Kind: "VirtualMachine", UID: "vm", Controller: &yes}},
	}}
	request := func(a kubevirt.StateChangeRequestAction, uid types.UID) func(*kubevirt.VirtualMachine) {
		return func(m *kubevirt.VirtualMachine) {
			m.Status.StateChangeRequests = []kubevirt.VirtualMachineStateChangeRequest{{Action: a, UID: &uid}}
		}
	}
	now := metav1.Now()
	for name, c := range map[string]struct {
		vm   *kubevirt.VirtualMachine
		want string
	}{
		"it is to run":                      {machine(func(*kubevirt.VirtualMachine) {}), ""},
		"a start is requested":              {machine(request(kubevirt.StartRequest, "vmi")), ""},
		"another instance is to be stopped": {machine(request(kubevirt.StopRequest, "earlier")), ""},
		"a stop is requested":               {machine(request(kubevirt.StopRequest, "vmi")), "a stop is requested"},
		"it is deleted": {machine(func(m *kubevirt.VirtualMachine) {
			m.DeletionTimestamp = &now
		}), "the VM is deleted"},
		"it is deleted without its instance": {machine(func(m *kubevirt.VirtualMachine) {
			m.DeletionTimestamp, m.Finalizers = &now, []string{metav1.FinalizerOrphanDependents}
		}), ""},
		"it is gone": {nil, "the VM is gone"},
		"there is another of its name": {machine(func(m *kubevirt.VirtualMachine) {
			m.UID = "next"
		}), "the VM is gone"},
		"it is to be halted": {machine(func(m *kubevirt.VirtualMachine) {
			halted := kubevirt.RunStrategyHalted
			m.Spec.RunStrategy = &halted
		}), "the VM is to be halted"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, vmReasonToEnd(c.vm, vmi)) })
	}
}

func TestReasonOfSet(t *testing.T) {
	yes, two, now := true, int32(2), metav1.Now()
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
		OwnerReferences: []metav1.OwnerReference{
			{Kind: "VirtualMachineInstanceReplicaSet", UID: "set", Controller: &yes}},
	}}
	of := func(uid types.UID, deleted *metav1.Time) *kubevirt.VirtualMachineInstanceReplicaSet {
		return &kubevirt.VirtualMachineInstanceReplicaSet{
			ObjectMeta: metav1.ObjectMeta{UID: uid, DeletionTimestamp: deleted},
			Spec:       kubevirt.VirtualMachineInstanceReplicaSetSpec{Replicas: &two},
		}
	}
	require.Empty(t, setReasonToEnd(of("set", nil), vmi, 1), "it was the second of two")
	require.NotEmpty(t, setReasonToEnd(of("set", nil), vmi, 2))
	require.NotEmpty(t, setReasonToEnd(of("set", &now), vmi, 0))
	require.NotEmpty(t, setReasonToEnd(of("next", nil), vmi, 0))
	require.NotEmpty(t, setReasonToEnd(nil, vmi, 0))
}

// TestDetectsGuestEndedWithoutReason has virtflow end guests, which breaks an invariant, and users, which does not.
func TestDetectsGuestEndedWithoutReason(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(t *testing.T, w *World)
		want []string
	}{
		"virtflow deletes the instance": {func(t *testing.T, w *World) {
			client, err := crdkube.New(w.config())
			require.NoError(t, err)
			require.NoError(t, client.VMIs(Namespace).Delete(t.Context(), vm, metav1.DeleteOptions{}))
		}, []string{"the instance default/web, whose guest runs, was deleted without a reason"}},
		"virtflow deletes the pod": {func(t *testing.T, w *World) {
			client, err := kubernetes.NewForConfig(w.config())
			require.NoError(t, err)
			require.NoError(t, client.CoreV1().Pods(Namespace).
				Delete(t.Context(), w.Pod(vm).Name, metav1.DeleteOptions{}))
		}, []string{"the pod of default/web, whose guest runs, was deleted without a reason"}},
		"a user deletes the instance": {func(_ *testing.T, w *World) { w.DeleteInstance(vm) }, nil},
		"a user deletes the pod":      {func(_ *testing.T, w *World) { w.DeletePod(vm, nil) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := New(Options{})
			require.NoError(t, err)
			w.Run(func(w *World) {
				up(w)
				c.end(t, w)
			})
			require.Equal(t, c.want, w.Broken)
		})
	}
}
