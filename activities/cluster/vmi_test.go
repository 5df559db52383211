package cluster_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
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

// TestAdoptsInstanceWithoutController: such as one whose VM was deleted without it, and made again.
func TestAdoptsInstanceWithoutController(t *testing.T) {
	w := newWorld(t)
	_, vm := w.vm(t)
	left, err := w.kubevirt.VMIs(w.ns).Create(t.Context(), &kubevirt.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.ns, Finalizers: []string{contract.FinalizerVMI}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for range 2 {
		out, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm})
		require.NoError(t, err)
		require.Equal(t, string(left.UID), out.VMI.UID)
		require.Equal(t, vm.UID, out.VMI.OwnerUID)
		require.Equal(t, []string{contract.FinalizerVMI, contract.FinalizerVM}, out.VMI.Finalizers)
	}
}

// TestKeepsReleasedInstance: the garbage collector has done what kubectl delete vm --cascade=orphan asks for, and
// the VM shows no sign of it.
func TestKeepsReleasedInstance(t *testing.T) {
	w := newWorld(t)
	vm, vmi := w.machine(t)
	w.disown(t, "web")

	out, err := w.DeleteVMI(t.Context(),
		contract.DeleteVMIInput{VM: vm, VMI: contract.Object{Namespace: w.ns, Name: "web", UID: "another"}})
	require.NoError(t, err)
	require.Equal(t, contract.DeleteVMIResult{Absent: true}, out, "an instance of another UID is not touched")
	require.Empty(t, w.there(t, "web").OwnerReferences)

	w.releaseRevision(t)
	require.NoError(t, w.kubevirt.VMs(w.ns).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	for i, of := range []contract.Object{vm, {Namespace: w.ns, Name: "web", UID: "one before"}} {
		for range 2 {
			w.fake.Calls()
			out, err = w.DeleteVMI(t.Context(), contract.DeleteVMIInput{VM: of, VMI: vmi})
			require.NoError(t, err)
			require.Equal(t, contract.DeleteVMIResult{Absent: true, Orphaned: true}, out)
			calls := []string{"GET virtualmachineinstances", "GET virtualmachines"}
			if i == 0 { // it is this VM's, and being deleted
				calls = append(calls, "GET controllerrevisions")
			}
			require.Equal(t, calls, w.fake.Calls(), "and no event reports its deletion")
			require.Nil(t, w.there(t, "web").DeletionTimestamp)
		}
	}
}

// TestAnInstanceWithoutItsReferenceIsStopped: another client has removed it, and the VM is there and wants it stopped.
func TestAnInstanceWithoutItsReferenceIsStopped(t *testing.T) {
	w := newWorld(t)
	vm, vmi := w.machine(t)
	w.halt(t)
	w.disown(t, "web")
	in := contract.DeleteVMIInput{VM: vm, VMI: vmi}
	for range 2 {
		out, err := w.DeleteVMI(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, contract.DeleteVMIResult{UID: vmi.UID}, out, "its end is to be waited for")
	}
	require.NotNil(t, w.there(t, "web").DeletionTimestamp)
	require.Len(t, w.there(t, "web").OwnerReferences, 1)
}

// TestCreatesNoUnrequestedInstance: what the workflow remembers may be older than the VM.
func TestCreatesNoUnrequestedInstance(t *testing.T) {
	w := newWorld(t)
	_, vm := w.vm(t)
	for _, strategy := range []string{"Halted", "Manual", "WaitAsReceiver"} {
		w.strategy(t, strategy)
		out, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm})
		require.NoError(t, err)
		require.Contains(t, out.Refused, "run strategy "+strategy+" does not ask for an instance now")
		require.Equal(t, strategy, out.VM.RunStrategy)
		require.Empty(t, w.instances(t))
	}
	w.strategy(t, "Always")
	made, err := w.CreateVMI(t.Context(),
		contract.CreateVMIInput{VM: vm, Transition: "vm/default/web/12345678/start/1"})
	require.NoError(t, err)
	require.Equal(t, "vm/default/web/12345678/start/1", w.there(t, "web").Annotations[contract.AnnotationTransition])
	w.halt(t)
	again, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm})
	require.NoError(t, err)
	require.Equal(t, contract.CreateVMIResult{VMI: made.VMI}, again, "an attempt before has made it")
}

// TestRefusedCreationFindsInstance: a creation that is refused finds the instance that an earlier attempt, whose answer
// was lost, has created.
func TestRefusedCreationFindsInstance(t *testing.T) {
	w := newWorld(t)
	if w.fake == nil {
		t.Skip("needs an API server that fails on demand")
	}
	_, vm := w.vm(t)
	refuse := func(call string) {
		w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
			if r.Call() != call {
				return nil
			}
			return &fakekube.Fault{Status: &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden,
				Reason: metav1.StatusReasonForbidden, Message: "exceeded quota"}}
		})
	}
	refuse("POST virtualmachineinstances")
	_, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm})
	require.Equal(t, contract.ErrorForbidden, errorType(err), "nothing is there")
	w.fake.Intercept(nil)
	made, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm})
	require.NoError(t, err)
	for _, call := range []string{"POST virtualmachineinstances", "POST controllerrevisions"} {
		refuse(call)
		again, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm})
		require.NoError(t, err, call)
		require.Equal(t, made, again, call)
	}
}

// TestTheRevisionOfThePresentInstanceStays: the revision of the present instance stays, whichever earlier start is
// named by the start that finds it.
func TestTheRevisionOfThePresentInstanceStays(t *testing.T) {
	w := newWorld(t)
	_, vm := w.vm(t)
	first, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm})
	require.NoError(t, err)
	_, err = w.kubevirt.VMs(w.ns).Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"domain":{"cpu":{"cores":2}}}}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	again, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm, Revision: first.VMI.Revision})
	require.NoError(t, err)
	require.Equal(t, first.VMI.UID, again.VMI.UID)
	revisions := w.kubernetes.AppsV1().ControllerRevisions(w.ns)
	_, err = revisions.Get(t.Context(), first.VMI.Revision, metav1.GetOptions{})
	require.NoError(t, err)

	w.halt(t)
	_, err = w.DeleteVMI(t.Context(), contract.DeleteVMIInput{VM: vm})
	require.NoError(t, err)
	_, err = w.PatchVMI(t.Context(),
		contract.PatchVMIInput{VMI: contract.Object{Namespace: w.ns, Name: "web", UID: first.VMI.UID},
			Finalizers: &[]string{}})
	require.NoError(t, err)
	w.strategy(t, "Always")
	next, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm, Revision: first.VMI.Revision})
	require.NoError(t, err)
	_, err = revisions.Get(t.Context(), first.VMI.Revision, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "the instance that was made from it is no more")
	_, err = revisions.Get(t.Context(), next.VMI.Revision, metav1.GetOptions{})
	require.NoError(t, err)
}
