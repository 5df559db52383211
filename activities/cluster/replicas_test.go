package cluster_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

// replicaSet makes a set of the selector app=web.
func (w *world) replicaSet(t *testing.T) (*kubevirt.VirtualMachineInstanceReplicaSet, contract.Object) {
	t.Helper()
	memory := resource.MustParse("128Mi")
	n := int32(3)
	labels := map[string]string{"app": "web"}
	set := &kubevirt.VirtualMachineInstanceReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.ns},
		Spec: kubevirt.VirtualMachineInstanceReplicaSetSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: &kubevirt.VirtualMachineInstanceTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels,
					Annotations: map[string]string{contract.AnnotationRequestedBy: "mallory"}},
				Spec: kubevirt.VirtualMachineInstanceSpec{
					Domain: kubevirt.DomainSpec{Memory: &kubevirt.Memory{Guest: &memory}}},
			},
		},
	}
	made, err := w.kubevirt.ReplicaSets(w.ns).Create(t.Context(), set, metav1.CreateOptions{})
	require.NoError(t, err)
	w.calls(t, "POST virtualmachineinstancereplicasets")
	return made, contract.Object{Namespace: w.ns, Name: made.Name, UID: string(made.UID)}
}

func (w *world) instances(t *testing.T) []kubevirt.VirtualMachineInstance {
	t.Helper()
	list, err := w.kubevirt.VMIs(w.ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	if w.fake != nil {
		w.fake.Calls()
	}
	return list.Items
}

// TestReplicas takes a set through its life, and does each step twice.
func TestReplicas(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	made, set := w.replicaSet(t)
	in := contract.CreateReplicasInput{Set: set, Generation: made.Generation, From: 1, Count: 3, Actor: "alice"}
	for range 2 {
		out, err := w.CreateReplicas(ctx, in)
		require.NoError(t, err)
		require.Equal(t, contract.CreateReplicasResult{Made: 3}, out)
		require.Len(t, w.instances(t), 3)
	}
	find := contract.FindReplicasInput{Set: set, Selector: "app=web"}
	found, err := w.FindReplicas(ctx, find)
	require.NoError(t, err)
	require.NotEmpty(t, found.ResourceVersion)
	require.Len(t, found.Replicas, 3)
	ordinals := []int{}
	for _, r := range found.Replicas {
		ordinals = append(ordinals, r.Ordinal)
		require.Equal(t, set.UID, r.OwnerUID)
		require.True(t, r.Matches)
		require.Equal(t, "Pending", r.Phase)
		require.Regexp(t, "^web[a-z2-9]{5}$", r.Name)
	}
	slices.Sort(ordinals)
	require.Equal(t, []int{1, 2, 3}, ordinals)
	vmi := w.instances(t)[0]
	require.Equal(t, []string{contract.FinalizerVMI}, vmi.Finalizers)
	require.Equal(t, "alice", vmi.Annotations[contract.AnnotationRequestedBy])
	require.True(t, *vmi.OwnerReferences[0].Controller)
	require.True(t, *vmi.OwnerReferences[0].BlockOwnerDeletion)

	object := func(i int) contract.Object {
		return contract.Object{Namespace: w.ns, Name: found.Replicas[i].Name, UID: found.Replicas[i].UID}
	}
	other := object(2)
	other.UID = "ffffffff-0000-4000-8000-000000000000"
	w.scale(t, 0)
	in.From = 4
	late, err := w.CreateReplicas(ctx, in)
	require.NoError(t, err)
	require.Zero(t, late.Made, "none is made that the set wanted before")
	require.NotNil(t, late.Set)
	require.Zero(t, late.Set.Replicas)
	require.Len(t, w.instances(t), 3)
	ended, err := w.kubevirt.VMIs(w.ns).Get(ctx, object(1).Name, metav1.GetOptions{})
	require.NoError(t, err)
	ended.Status.Phase = kubevirt.Succeeded
	_, err = w.kubevirt.VMIs(w.ns).Update(ctx, ended, metav1.UpdateOptions{})
	require.NoError(t, err)
	for range 2 {
		out, err := w.DeleteReplicas(ctx,
			contract.DeleteReplicasInput{Set: set, Remove: []contract.Object{object(0), other},
				Finished: []contract.Object{object(1)}})
		require.NoError(t, err)
		require.Equal(t, contract.DeleteReplicasResult{Deleted: 3}, out)
	}
	deleting := 0
	for _, vmi := range w.instances(t) {
		if vmi.DeletionTimestamp != nil {
			deleting++
		}
	}
	require.Equal(t, 2, deleting, "one of another UID is not touched")
	if w.fake != nil { // an instance that was taken from its set stays
		w.disown(t, object(2).Name)
		_, err = w.DeleteReplicas(ctx, contract.DeleteReplicasInput{Set: set, Remove: []contract.Object{object(2)}})
		require.NoError(t, err)
		vmi, err := w.kubevirt.VMIs(w.ns).Get(ctx, object(2).Name, metav1.GetOptions{})
		require.NoError(t, err)
		require.Nil(t, vmi.DeletionTimestamp)
	}
	events, err := w.kubernetes.CoreV1().Events(w.ns).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	var said []string
	for _, e := range events.Items {
		said = append(said, e.Source.Component+" "+e.InvolvedObject.Kind+" "+e.Reason+" "+e.Message)
	}
	for i, text := range []string{
		"SuccessfulDelete Stopped the virtual machine by deleting the virtual machine instance " + object(0).UID,
		"SuccessfulDelete Deleted finished virtual machine: " + object(1).UID,
		"SuccessfulCreate Started the virtual machine by creating the new virtual machine instance " + object(2).Name,
	} {
		n := 0
		for _, s := range said {
			if s == "virtualmachinereplicaset-controller VirtualMachineInstanceReplicaSet "+text {
				n++
			}
		}
		require.Equal(t, 1, n, "%d: %v", i, said)
	}
}

func TestReplicasOfMissingSet(t *testing.T) {
	w := newWorld(t)
	made, set := w.replicaSet(t)
	wrong := set
	wrong.UID = "ffffffff-0000-4000-8000-000000000000"
	_, err := w.CreateReplicas(t.Context(), contract.CreateReplicasInput{Set: wrong, From: 1, Count: 1})
	require.Equal(t, contract.ErrorGone, errorType(err))
	_, err = w.CreateReplicas(t.Context(),
		contract.CreateReplicasInput{Set: set, Generation: made.Generation + 1, From: 1, Count: 1})
	require.Equal(t, "Kubernetes", errorType(err), "it is read again")
	require.Empty(t, w.instances(t))
}

func TestNamesTakenByOthers(t *testing.T) {
	w := newWorld(t)
	_, set := w.replicaSet(t)
	_, err := w.CreateReplicas(t.Context(), contract.CreateReplicasInput{Set: set, From: 1, Count: 1})
	require.NoError(t, err)
	name := w.instances(t)[0].Name
	other := w.again(t)
	require.NoError(t, w.kubevirt.VMIs(w.ns).Delete(t.Context(), name, metav1.DeleteOptions{}))
	_, err = w.PatchVMI(t.Context(),
		contract.PatchVMIInput{VMI: contract.Object{Namespace: w.ns, Name: name, UID: string(w.instances(t)[0].UID)},
			Finalizers: &[]string{}})
	require.NoError(t, err)
	_, err = w.kubevirt.VMIs(w.ns).
		Create(t.Context(), &kubevirt.VirtualMachineInstance{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.ns}}, metav1.CreateOptions{})
	require.NoError(t, err)
	out, err := other.CreateReplicas(t.Context(), contract.CreateReplicasInput{Set: set, From: 1, Count: 2})
	require.NoError(t, err)
	require.Equal(t, contract.CreateReplicasResult{Made: 1, Taken: []int{1}}, out)
}

// TestRefusalIsResult: what was made before it is known, and the rest is not tried.
func TestRefusalIsResult(t *testing.T) {
	if os.Getenv("VIRTFLOW_TEST_KUBECONFIG") != "" {
		t.Skip("needs an API server that fails on demand")
	}
	w := newWorld(t)
	_, set := w.replicaSet(t)
	var mu sync.Mutex
	posts := 0
	refuse := func(code int32, reason metav1.StatusReason) func(fakekube.Request) *fakekube.Fault {
		posts = 0
		return func(r fakekube.Request) *fakekube.Fault {
			if r.Call() != "POST virtualmachineinstances" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if posts++; posts <= 3 {
				return nil
			}
			return &fakekube.Fault{Status: &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason,
				Message: "exceeded quota: few"}}
		}
	}
	w.fake.Intercept(refuse(http.StatusForbidden, metav1.StatusReasonForbidden))
	out, err := w.CreateReplicas(t.Context(), contract.CreateReplicasInput{Set: set, From: 1, Count: 50})
	require.NoError(t, err)
	require.Equal(t, 3, out.Made)
	require.Equal(t, contract.ErrorForbidden, out.Refused.Type)
	require.Contains(t, out.Refused.Message, "exceeded quota: few")
	require.Equal(t, 7, posts, "one, two and four at once, and none after that")

	w.fake.Intercept(refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError))
	_, err = w.CreateReplicas(t.Context(), contract.CreateReplicasInput{Set: set, From: 1, Count: 50})
	require.Equal(t, "Kubernetes", errorType(err), "what may pass is tried again")
	w.fake.Intercept(nil)
	out, err = w.CreateReplicas(t.Context(), contract.CreateReplicasInput{Set: set, From: 1, Count: 50})
	require.NoError(t, err)
	require.Equal(t, contract.CreateReplicasResult{Made: 50}, out)
	require.Len(t, w.instances(t), 50, "none twice")
}

func TestClaimReplicas(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, set := w.replicaSet(t)
	bare := func(name string, labels map[string]string) contract.Object {
		vmi, err := w.kubevirt.VMIs(w.ns).
			Create(ctx, &kubevirt.VirtualMachineInstance{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.ns, Labels: labels}}, metav1.CreateOptions{})
		require.NoError(t, err)
		return contract.Object{Namespace: w.ns, Name: name, UID: string(vmi.UID)}
	}
	web := map[string]string{"app": "web"}
	one, two := bare("one", web), bare("two", map[string]string{"app": "db"})
	missing := contract.Object{Namespace: w.ns, Name: "three", UID: "x"}
	for i := range 2 {
		out, err := w.ClaimReplicas(ctx,
			contract.ClaimReplicasInput{Set: set, Adopt: []contract.Object{one, two, missing}})
		require.NoError(t, err)
		require.Len(t, out.Replicas, 3, i)
		require.Equal(t, set.UID, out.Replicas[0].OwnerUID)
		require.Empty(t, out.Replicas[1].OwnerUID, "it does not match any more")
		require.True(t, out.Replicas[2].Gone)
	}
	for range 2 {
		out, err := w.ClaimReplicas(ctx, contract.ClaimReplicasInput{Set: set, Release: []contract.Object{one}})
		require.NoError(t, err)
		require.Equal(t, set.UID, out.Replicas[0].OwnerUID, "it matches, so it stays")
	}
	vmi, err := w.kubevirt.VMIs(w.ns).Get(ctx, "one", metav1.GetOptions{})
	require.NoError(t, err)
	vmi.Labels = nil
	_, err = w.kubevirt.VMIs(w.ns).Update(ctx, vmi, metav1.UpdateOptions{})
	require.NoError(t, err)
	for range 2 {
		out, err := w.ClaimReplicas(ctx, contract.ClaimReplicasInput{Set: set, Release: []contract.Object{one}})
		require.NoError(t, err)
		require.Empty(t, out.Replicas[0].OwnerUID)
	}
}

func TestPatchReplicaSet(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	made, set := w.replicaSet(t)
	in := contract.PatchReplicaSetInput{Set: set, ResourceVersion: made.ResourceVersion,
		Status: contract.ReplicaSetStatus{
			Replicas: 3, ReadyReplicas: 2, LabelSelector: "app=web",
			Conditions: []contract.Condition{
				{Type: "ReplicaPaused", Status: "True", Reason: "Paused", Message: "Controller got paused"}},
		}, Events: []contract.Event{{Type: "Normal", Reason: "SuccessfulPaused", Message: "Paused"}}}
	out, err := w.PatchReplicaSet(ctx, in)
	require.NoError(t, err)
	require.True(t, out.Written)
	require.Equal(t, "Paused", out.Current.Conditions[0].Reason)
	w.calls(t, "PATCH virtualmachineinstancereplicasets/status", "POST events")
	stored, err := w.kubevirt.ReplicaSets(w.ns).Get(ctx, set.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 3, stored.Status.Replicas)
	require.EqualValues(t, 2, stored.Status.ReadyReplicas)
	require.Equal(t, "app=web", stored.Status.LabelSelector)

	out, err = w.PatchReplicaSet(ctx, in)
	require.NoError(t, err)
	require.True(t, out.Conflict)
	in.ResourceVersion, in.Status, in.Events = out.Current.ResourceVersion,
		contract.ReplicaSetStatus{LabelSelector: "app=web"}, nil
	out, err = w.PatchReplicaSet(ctx, in)
	require.NoError(t, err)
	require.True(t, out.Written)
	require.Empty(t, out.Current.Conditions)
	in.Set.UID = "ffffffff-0000-4000-8000-000000000000"
	out, err = w.PatchReplicaSet(ctx, in)
	require.NoError(t, err)
	require.True(t, out.Gone, fmt.Sprint(out))
}
