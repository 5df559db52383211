package cluster_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/render"
	"github.com/virtflow/virtflow/contract"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

// changing has an instance change, as often as asked for, between the look at it and the request to delete it.
// Deletions counts the requests.
func (w *world) changing(t *testing.T, times int, change func(*kubevirt.VirtualMachineInstance)) (deletions *int) {
	t.Helper()
	if w.fake == nil {
		t.Skip("a real API server cannot be held up")
	}
	deletions = new(int)
	w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
		if r.Verb != "delete" || r.Resource != "virtualmachineinstances" {
			return nil
		}
		if *deletions++; *deletions <= times {
			_, err := fakekube.Edit(w.fake, r.Namespace, r.Name, "", change)
			require.NoError(t, err)
		}
		return nil
	})
	return deletions
}

// disown takes the references off an instance.
func (w *world) disown(t *testing.T, name string) {
	t.Helper()
	_, err := w.kubevirt.VMIs(w.ns).
		Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`),
			metav1.PatchOptions{})
	require.NoError(t, err)
}

// halt makes the VM ask for no instance.
func (w *world) halt(t *testing.T) { w.strategy(t, "Halted") }

func (w *world) strategy(t *testing.T, strategy string) {
	t.Helper()
	_, err := w.kubevirt.VMs(w.ns).Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"spec":{"runStrategy":"`+strategy+`"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
}

// scale makes the set ask for so many instances.
func (w *world) scale(t *testing.T, n int) {
	t.Helper()
	_, err := w.kubevirt.ReplicaSets(w.ns).Patch(t.Context(), "web", types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{})
	require.NoError(t, err)
}

// releaseRevision is what the garbage collector does besides with a VM that is deleted with --cascade=orphan.
func (w *world) releaseRevision(t *testing.T) {
	t.Helper()
	list, err := w.kubernetes.AppsV1().ControllerRevisions(w.ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	_, err = fakekube.Edit(w.fake, w.ns, list.Items[0].Name, "", func(r *appsv1.ControllerRevision) {
		r.OwnerReferences = nil
	})
	require.NoError(t, err)
}

func (w *world) there(t *testing.T, name string) *kubevirt.VirtualMachineInstance {
	t.Helper()
	vmi, err := w.kubevirt.VMIs(w.ns).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return vmi
}

// machine is a VM with its instance.
func (w *world) machine(t *testing.T) (vm, vmi contract.Object) {
	t.Helper()
	made, vm := w.vm(t)
	created, err := w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm, Generation: made.Generation})
	require.NoError(t, err)
	return vm, contract.Object{Namespace: w.ns, Name: "web", UID: created.VMI.UID}
}

// farm controls an instance, and is of a kind that the garbage collector does not know.
func farm() metav1.OwnerReference {
	return *metav1.NewControllerRef(&metav1.ObjectMeta{Name: "farm", UID: "f"},
		schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Farm"})
}

func labelled(vmi *kubevirt.VirtualMachineInstance) {
	if vmi.Labels == nil {
		vmi.Labels = map[string]string{}
	}
	vmi.Labels["changed"] += "x"
}

// TestEvictionEvent: the VM's events report that the pod of its instance was deleted.
func TestEvictionEvent(t *testing.T) {
	w := newWorld(t)
	vm, vmi := w.machine(t)
	ended, err := w.kubevirt.VMIs(w.ns).Get(t.Context(), "web", metav1.GetOptions{})
	require.NoError(t, err)
	ended.Status.Phase, ended.Status.Reason = kubevirt.Succeeded, contract.ReasonEvicted
	_, err = w.kubevirt.VMIs(w.ns).Update(t.Context(), ended, metav1.UpdateOptions{})
	require.NoError(t, err)
	out, err := w.DeleteVMI(t.Context(), contract.DeleteVMIInput{VM: vm, VMI: vmi})
	require.NoError(t, err)
	require.Empty(t, out.Refused)
	events, err := w.kubernetes.CoreV1().Events(w.ns).List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + vm.UID + ",reason=" + contract.ReasonEvicted})
	require.NoError(t, err)
	require.Len(t, events.Items, 1)
	require.Contains(t, events.Items[0].Message, vmi.UID)
}

// TestKeepsInstanceThatChangesOwner: the instance was its VM's when the activity read it, and is not when it deletes.
func TestKeepsInstanceThatChangesOwner(t *testing.T) {
	for name, owners := range map[string][]metav1.OwnerReference{
		"without a controller": nil,
		"another's":            {farm()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			deletions := w.changing(t, 1, func(vmi *kubevirt.VirtualMachineInstance) { vmi.OwnerReferences = owners })
			vm, vmi := w.machine(t)
			w.releaseRevision(t)
			gone := contract.Object{Namespace: w.ns, Name: vm.Name, UID: vm.UID}
			require.NoError(t, w.kubevirt.VMs(w.ns).Delete(t.Context(), "web", *metav1.NewDeleteOptions(0)))
			for range 2 {
				out, err := w.DeleteVMI(t.Context(), contract.DeleteVMIInput{VM: gone, VMI: vmi})
				require.NoError(t, err)
				require.Equal(t, contract.DeleteVMIResult{Absent: true, Orphaned: true}, out)
				require.Nil(t, w.there(t, "web").DeletionTimestamp)
			}
			require.Equal(t, 1, *deletions)
		})
	}
}

// TestDeletesChangingInstance: that it changes in another way just then is no reason to leave it alone.
func TestDeletesChangingInstance(t *testing.T) {
	w := newWorld(t)
	deletions := w.changing(t, 3, labelled)
	vm, _ := w.machine(t)
	w.halt(t)
	out, err := w.DeleteVMI(t.Context(), contract.DeleteVMIInput{VM: vm})
	require.NoError(t, err)
	require.Equal(t, contract.DeleteVMIResult{UID: string(w.there(t, "web").UID)}, out)
	require.Equal(t, 4, *deletions)
	require.NotNil(t, w.there(t, "web").DeletionTimestamp)
}

// TestRetriesInstanceThatKeepsChanging: an instance that changes at each attempt is an error, which is retried, and
// does not count as gone.
func TestRetriesInstanceThatKeepsChanging(t *testing.T) {
	w := newWorld(t)
	w.changing(t, 1000, labelled)
	vm, _ := w.machine(t)
	w.halt(t)
	_, err := w.DeleteVMI(t.Context(), contract.DeleteVMIInput{VM: vm})
	require.Error(t, err)
	require.Nil(t, w.there(t, "web").DeletionTimestamp)
}

// TestRefusedDeletionIsNoEnd: a policy of the cluster's own keeps instances from being deleted. That is reported, and
// the VM keeps its finalizer.
func TestRefusedDeletionIsNoEnd(t *testing.T) {
	w := newWorld(t)
	if w.fake == nil {
		t.Skip("a real API server has no such policy")
	}
	vm, vmi := w.machine(t)
	w.halt(t)
	w.fake.Calls()
	set, of := w.replicaSet(t)
	made, err := w.CreateReplicas(t.Context(),
		contract.CreateReplicasInput{Set: of, Generation: set.Generation, From: 1, Count: 1})
	require.NoError(t, err)
	require.Equal(t, 1, made.Made)
	w.scale(t, 0)
	w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
		if r.Verb != "delete" {
			return nil
		}
		return &fakekube.Fault{Status: &metav1.Status{
			Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			Message: "ValidatingAdmissionPolicy 'keep' denied request: instances are protected",
		}}
	})
	_, err = w.DeleteVMI(t.Context(), contract.DeleteVMIInput{VM: vm, VMI: vmi})
	require.ErrorContains(t, err, "instances are protected")
	for _, replica := range w.instances(t) {
		if replica.Name == "web" {
			continue
		}
		out, err := w.DeleteReplicas(t.Context(), contract.DeleteReplicasInput{
			Set: of, Remove: []contract.Object{{Namespace: w.ns, Name: replica.Name, UID: string(replica.UID)}},
		})
		require.NoError(t, err)
		require.Zero(t, out.Deleted)
		require.NotNil(t, out.Refused)
		require.Contains(t, out.Refused.Message, "instances are protected")
	}
}

// TestKeepsReplicasOfOtherOwners: the replicas have other owners by now, although the set's workflow still lists them
// as its own.
func TestKeepsReplicasOfOtherOwners(t *testing.T) {
	for name, change := range map[string]func(*kubevirt.VirtualMachineInstance){
		"set aside":            func(vmi *kubevirt.VirtualMachineInstance) { vmi.Labels = map[string]string{"app": "aside"} },
		"without a controller": func(vmi *kubevirt.VirtualMachineInstance) { vmi.OwnerReferences = nil },
		"another's": func(vmi *kubevirt.VirtualMachineInstance) {
			vmi.OwnerReferences = []metav1.OwnerReference{farm()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			deletions := w.changing(t, 1, change)
			made, set := w.replicaSet(t)
			_, err := w.CreateReplicas(t.Context(),
				contract.CreateReplicasInput{Set: set, Generation: made.Generation, From: 1, Count: 1})
			require.NoError(t, err)
			replica := w.instances(t)[0]
			w.scale(t, 0)
			in := contract.DeleteReplicasInput{Set: set,
				Remove: []contract.Object{{Namespace: w.ns, Name: replica.Name, UID: string(replica.UID)}}}
			for range 2 {
				_, err = w.DeleteReplicas(t.Context(), in)
				require.NoError(t, err)
				require.Nil(t, w.there(t, replica.Name).DeletionTimestamp)
			}
			require.Equal(t, 1, *deletions)
		})
	}
}

// TestReplicasOfASetThatGoesAreNotTheSetsToDelete: the garbage collector deletes them, or leaves them alone, as was
// asked for.
func TestReplicasOfASetThatGoesAreNotTheSetsToDelete(t *testing.T) {
	w := newWorld(t)
	deletions := w.changing(t, 0, nil)
	made, set := w.replicaSet(t)
	_, err := w.CreateReplicas(t.Context(),
		contract.CreateReplicasInput{Set: set, Generation: made.Generation, From: 1, Count: 1})
	require.NoError(t, err)
	replica := w.instances(t)[0]
	require.NoError(t, fakekube.Orphan[kubevirt.VirtualMachineInstanceReplicaSet](w.fake, w.ns, set.Name))
	_, err = w.DeleteReplicas(t.Context(),
		contract.DeleteReplicasInput{Set: set,
			Remove: []contract.Object{{Namespace: w.ns, Name: replica.Name, UID: string(replica.UID)}}})
	require.Error(t, err)
	require.Zero(t, *deletions)
	require.Nil(t, w.there(t, replica.Name).DeletionTimestamp)
}

// TestReleasesInstanceAdoptedTooLate: the VM was deleted after it was looked at, and before it adopted the instance.
func TestReleasesInstanceAdoptedTooLate(t *testing.T) {
	w := newWorld(t)
	if w.fake == nil {
		t.Skip("a real API server cannot be held up")
	}
	vm, _ := w.machine(t)
	_, err := fakekube.Edit(w.fake, w.ns, "web", "", func(vmi *kubevirt.VirtualMachineInstance) {
		vmi.OwnerReferences = nil
	})
	require.NoError(t, err)
	_, err = fakekube.Edit(w.fake, w.ns, "web", "", func(vm *kubevirt.VirtualMachine) {
		vm.Finalizers = []string{contract.FinalizerVM}
	})
	require.NoError(t, err)
	patches := 0
	w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
		if r.Verb != "patch" || r.Resource != "virtualmachineinstances" {
			return nil
		}
		if patches++; patches == 2 { // and now its status is written
			_, err := fakekube.Edit(w.fake, w.ns, "web", "", labelled)
			require.NoError(t, err)
		}
		if fakekube.Get[kubevirt.VirtualMachine](w.fake, w.ns, "web").DeletionTimestamp == nil {
			require.NoError(t, fakekube.Orphan[kubevirt.VirtualMachine](w.fake, w.ns, "web"))
		}
		return nil
	})
	for range 2 {
		_, err = w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm})
		require.ErrorContains(t, err, "is being deleted")
		require.Empty(t, w.there(t, "web").OwnerReferences)
		require.Nil(t, w.there(t, "web").DeletionTimestamp)
	}
}

// TestNextAttemptReleasesInstanceAdoptedTooLate: the first attempt adopted the instance and then failed.
func TestNextAttemptReleasesInstanceAdoptedTooLate(t *testing.T) {
	w := newWorld(t)
	if w.fake == nil {
		t.Skip("a real API server cannot be held up")
	}
	vm, vmi := w.machine(t)
	_, err := fakekube.Edit(w.fake, w.ns, "web", "", func(vmi *kubevirt.VirtualMachineInstance) {
		vmi.OwnerReferences, vmi.Status.VirtualMachineRevisionName = nil, "revision-start-vm-of-one-before-1"
	})
	require.NoError(t, err)
	_, err = fakekube.Edit(w.fake, w.ns, "web", "", func(vm *kubevirt.VirtualMachine) {
		vm.Finalizers = []string{contract.FinalizerVM}
	})
	require.NoError(t, err)
	w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
		if r.Call() == "GET virtualmachines" && w.there(t, "web").OwnerReferences != nil {
			return &fakekube.Fault{Status: &metav1.Status{Code: http.StatusInternalServerError,
				Reason: metav1.StatusReasonInternalError}}
		}
		return nil
	})
	_, err = w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm})
	require.Equal(t, "Kubernetes", errorType(err))
	w.fake.Intercept(nil)
	owners := w.there(t, "web").OwnerReferences
	require.Len(t, owners, 1, "it was adopted")
	require.NoError(t, fakekube.Orphan[kubevirt.VirtualMachine](w.fake, w.ns, "web"))
	// The garbage collector has looked before the instance was the VM's.
	_, err = fakekube.Edit(w.fake, w.ns, "web", "", func(vmi *kubevirt.VirtualMachineInstance) {
		vmi.OwnerReferences = owners
	})
	require.NoError(t, err)
	for range 2 {
		_, err = w.CreateVMI(t.Context(), contract.CreateVMIInput{VM: vm})
		require.Equal(t, contract.ErrorGone, errorType(err))
		require.Equal(t, vmi.UID, string(w.there(t, "web").UID))
		require.Empty(t, w.there(t, "web").OwnerReferences)
		require.Nil(t, w.there(t, "web").DeletionTimestamp)
	}
}

// TestWhoReleasedTheInstanceOfADeletedVM: the garbage collector releases everything that is the VM's; any other client
// only the instance.
func TestWhoReleasedTheInstanceOfADeletedVM(t *testing.T) {
	for name, c := range map[string]struct {
		revision []metav1.OwnerReference
		gone     bool
		left     bool
	}{
		"another client":        {},
		"the garbage collector": {revision: []metav1.OwnerReference{}, left: true},
		"not known":             {gone: true, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.changing(t, 0, nil)
			vm, vmi := w.machine(t)
			_, err := fakekube.Edit(w.fake, w.ns, "web", "", func(v *kubevirt.VirtualMachineInstance) {
				v.OwnerReferences = nil
			})
			require.NoError(t, err)
			revisions := w.kubernetes.AppsV1().ControllerRevisions(w.ns)
			list, err := revisions.List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			require.Len(t, list.Items, 1)
			revision := list.Items[0].Name
			if c.revision != nil {
				_, err = fakekube.Edit(w.fake, w.ns, revision, "", func(r *appsv1.ControllerRevision) {
					r.OwnerReferences = c.revision
				})
				require.NoError(t, err)
			}
			if c.gone {
				require.NoError(t, revisions.Delete(t.Context(), revision, metav1.DeleteOptions{}))
			}
			require.NoError(t, w.kubevirt.VMs(w.ns).Delete(t.Context(), "web", metav1.DeleteOptions{}))
			out, err := w.DeleteVMI(t.Context(), contract.DeleteVMIInput{VM: vm, VMI: vmi})
			require.NoError(t, err)
			want := contract.DeleteVMIResult{Absent: c.left, Orphaned: c.left}
			if !c.left {
				want.UID = vmi.UID
			}
			require.Equal(t, want, out)
			require.Equal(t, !c.left, w.there(t, "web").DeletionTimestamp != nil)
		})
	}
}

// TestDeletesInstanceOnlyIfStillRequired: what the workflow remembers is as old as its copy of Temporal's database.
func TestDeletesInstanceOnlyIfStillRequired(t *testing.T) {
	const start = "vm/default/web/12345678/start/1"
	running := func(vmi *kubevirt.VirtualMachineInstance) {
		vmi.Status.Phase = kubevirt.Running
		vmi.Status.PhaseTransitionTimestamps = append(vmi.Status.PhaseTransitionTimestamps,
			kubevirt.VirtualMachineInstancePhaseTransitionTimestamp{Phase: kubevirt.Running})
	}
	for name, c := range map[string]struct {
		strategy string
		vmi      func(*kubevirt.VirtualMachineInstance)
		requests func(vmi string) []kubevirt.VirtualMachineStateChangeRequest
		madeBy   string
		unpaused bool // the gate of its pod was opened
		deleted  bool
		refused  string
	}{
		"the VM wants it to run": {strategy: "Always", vmi: running,
			refused: "run strategy Always does not ask for the end of the instance now"},
		"it has ended, and is replaced": {strategy: "Always", vmi: func(v *kubevirt.VirtualMachineInstance) {
			v.Status.Phase = kubevirt.Failed
		}, deleted: true},
		"it has ended, without a request": {strategy: "Manual", vmi: func(v *kubevirt.VirtualMachineInstance) {
			v.Status.Phase = kubevirt.Failed
		}, refused: "does not ask"},
		"the VM is halted":                {strategy: "Halted", vmi: running, deleted: true},
		"the VM says nothing that counts": {strategy: "WaitAsReceiver", vmi: running, refused: "does not ask"},
		"a restart is asked for": {strategy: "Always", vmi: running, deleted: true,
			requests: func(uid string) []kubevirt.VirtualMachineStateChangeRequest {
				of := types.UID(uid)
				return []kubevirt.VirtualMachineStateChangeRequest{{Action: kubevirt.StopRequest, UID: &of},
					{Action: kubevirt.StartRequest}}
			}},
		"a stop of another is asked for": {strategy: "Manual", vmi: running, refused: "does not ask",
			requests: func(string) []kubevirt.VirtualMachineStateChangeRequest {
				of := types.UID("another")
				return []kubevirt.VirtualMachineStateChangeRequest{{Action: kubevirt.StopRequest, UID: &of}}
			}},
		"its start is cancelled": {strategy: "Always", madeBy: start, deleted: true},
		"its start is cancelled, and it runs": {strategy: "Always", madeBy: start, vmi: running,
			refused: "its guest has run"},
		"its start is cancelled, and its status is late": {strategy: "Always", madeBy: start, unpaused: true,
			refused: "its guest has run"},
		"another start is cancelled": {strategy: "Always", madeBy: start + "0",
			refused: "was not made by the start that was cancelled"},
		"its start is cancelled, since it is over": {strategy: "Halted", madeBy: start + "0", vmi: running,
			deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			made, vm := w.vm(t)
			created, err := w.CreateVMI(t.Context(),
				contract.CreateVMIInput{VM: vm, Generation: made.Generation, Transition: start})
			require.NoError(t, err)
			w.strategy(t, c.strategy)
			if c.vmi != nil {
				_, err = fakekube.Edit(w.fake, w.ns, "web", "", c.vmi)
				require.NoError(t, err)
			}
			if c.unpaused {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: render.PodName("web", created.VMI.UID)}}
				pod, err = w.kubernetes.CoreV1().Pods(w.ns).Create(t.Context(), pod, metav1.CreateOptions{})
				require.NoError(t, err)
				pod.Status.Conditions = []corev1.PodCondition{
					{Type: contract.ConditionUnpaused, Status: corev1.ConditionTrue}}
				_, err = w.kubernetes.CoreV1().Pods(w.ns).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
				require.NoError(t, err)
			}
			if c.requests != nil {
				_, err = fakekube.Edit(w.fake, w.ns, "web", "status", func(v *kubevirt.VirtualMachine) {
					v.Status.StateChangeRequests = c.requests(created.VMI.UID)
				})
				require.NoError(t, err)
			}
			for _, uid := range []string{created.VMI.UID, ""} {
				out, err := w.DeleteVMI(t.Context(),
					contract.DeleteVMIInput{VM: vm, VMI: contract.Object{Name: "web", UID: uid}, MadeBy: c.madeBy})
				require.NoError(t, err)
				require.Equal(t, c.deleted, w.there(t, "web").DeletionTimestamp != nil)
				if c.deleted {
					require.Equal(t, contract.DeleteVMIResult{UID: created.VMI.UID}, out)
					continue
				}
				require.Contains(t, out.Refused, c.refused)
				require.Equal(t, c.strategy, out.VM.RunStrategy, "the planner learns what is true")
				require.Equal(t, created.VMI.UID, out.VMI.UID)
			}
		})
	}
}

// TestKeepsVMFinalizerWhileInstanceExists: the VM's own instance keeps the finalizer, whatever the VM's workflow
// remembers. An instance that the VM orphans, or that belongs to another owner, does not.
func TestKeepsVMFinalizerWhileInstanceExists(t *testing.T) {
	for name, c := range map[string]struct {
		left  []string // of its finalizers
		vmi   func(*kubevirt.VirtualMachineInstance)
		keeps bool
	}{
		"its own":                     {keeps: true},
		"it is left":                  {left: []string{metav1.FinalizerOrphanDependents}},
		"another's":                   {vmi: func(v *kubevirt.VirtualMachineInstance) { v.OwnerReferences[0].UID = "other" }},
		"without a controller by now": {vmi: func(v *kubevirt.VirtualMachineInstance) { v.OwnerReferences = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			vm, _ := w.machine(t)
			if c.vmi != nil {
				_, err := fakekube.Edit(w.fake, w.ns, "web", "", c.vmi)
				require.NoError(t, err)
			}
			machine, err := w.kubevirt.VMs(w.ns).Get(t.Context(), "web", metav1.GetOptions{})
			require.NoError(t, err)
			out, err := w.PatchVM(t.Context(), contract.PatchVMInput{VM: vm, ResourceVersion: machine.ResourceVersion,
				Finalizers: &c.left})
			if c.keeps {
				require.ErrorContains(t, err, "its VirtualMachineInstance is still there")
				return
			}
			require.NoError(t, err)
			require.True(t, out.Written)
		})
	}
}

// TestKeepsOrphanedInstance: this holds also before the garbage collector has removed the ownerReference.
func TestKeepsOrphanedInstance(t *testing.T) {
	w := newWorld(t)
	vm, vmi := w.machine(t)
	_, err := fakekube.Edit(w.fake, w.ns, "web", "", func(v *kubevirt.VirtualMachine) {
		v.Finalizers = []string{contract.FinalizerVM, metav1.FinalizerOrphanDependents}
	})
	require.NoError(t, err)
	require.NoError(t, w.kubevirt.VMs(w.ns).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	out, err := w.DeleteVMI(t.Context(), contract.DeleteVMIInput{VM: vm, VMI: vmi})
	require.NoError(t, err)
	require.Equal(t, contract.DeleteVMIResult{Absent: true, Orphaned: true}, out)
	require.Nil(t, w.there(t, "web").DeletionTimestamp)
}

// TestDeletesOnlySurplusReplicas: the current set decides, because it may have been scaled up, and an ended instance
// may run again, since the workflow decided.
func TestDeletesOnlySurplusReplicas(t *testing.T) {
	w := newWorld(t)
	made, set := w.replicaSet(t) // of three
	_, err := w.CreateReplicas(t.Context(),
		contract.CreateReplicasInput{Set: set, Generation: made.Generation, From: 1, Count: 4})
	require.NoError(t, err)
	var all []contract.Object
	for _, vmi := range w.instances(t) {
		all = append(all, contract.Object{Namespace: w.ns, Name: vmi.Name, UID: string(vmi.UID)})
	}
	going := func() (n int) {
		for _, vmi := range w.instances(t) {
			if vmi.DeletionTimestamp != nil {
				n++
			}
		}
		return n
	}
	out, err := w.DeleteReplicas(t.Context(), contract.DeleteReplicasInput{Set: set, Finished: all})
	require.NoError(t, err)
	require.Zero(t, out.Deleted, "none has ended")
	require.Equal(t, 3, out.Set.Replicas)
	require.Zero(t, going())

	_, err = w.kubevirt.ReplicaSets(w.ns).
		Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"paused":true}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	out, err = w.DeleteReplicas(t.Context(), contract.DeleteReplicasInput{Set: set, Remove: all})
	require.NoError(t, err)
	require.Zero(t, out.Deleted, "the set is paused")
	require.True(t, out.Set.Paused)
	require.Zero(t, going())
	_, err = w.kubevirt.ReplicaSets(w.ns).
		Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"paused":false}}`), metav1.PatchOptions{})
	require.NoError(t, err)

	w.fake.Calls()
	out, err = w.DeleteReplicas(t.Context(), contract.DeleteReplicasInput{Set: set, Remove: all})
	require.NoError(t, err)
	w.calls(t, "GET virtualmachineinstancereplicasets", "GET virtualmachineinstances", "DELETE virtualmachineinstances",
		"POST events")
	require.Equal(t, 1, out.Deleted, "one is too many")
	require.NotNil(t, out.Set)
	require.Equal(t, 1, going())
	out, err = w.DeleteReplicas(t.Context(), contract.DeleteReplicasInput{Set: set, Remove: all})
	require.NoError(t, err)
	require.Equal(t, 1, out.Deleted,
		"the instance that is being deleted is no replica any more, and no second one goes")
	require.NotNil(t, out.Set)
	require.Equal(t, 1, going())
}
