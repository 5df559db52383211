package conformance

import (
	"errors"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

var errNotYet = errors.New("not yet")

func others() []testCase {
	return []testCase{
		{"scale", func(r *rig) {
			r.create(r.sets(), r.set("a", 2))
			r.merged(r.sets(), "a", "status", `{"status":{"replicas":1,"labelSelector":"a=b"}}`)
			scale, err := r.sets().Get(r.Context(), "a", metav1.GetOptions{}, "scale")
			require.NoError(r, err)
			require.Equal(r, []any{"Scale", int64(2), int64(1), "a=b"},
				[]any{scale.GetKind(), number(scale, "spec", "replicas"), number(scale, "status", "replicas"),
					text(scale, "status", "selector")})
			scale = r.merged(r.sets(), "a", "scale", `{"spec":{"replicas":5}}`)
			require.Equal(r, int64(5), number(scale, "spec", "replicas"))
			require.NoError(r, set64(scale, 0, "spec", "replicas"))
			_, err = r.sets().Update(r.Context(), scale, metav1.UpdateOptions{}, "scale")
			require.NoError(r, err)
			o := r.get(r.sets(), "a")
			require.Equal(r, int64(0), number(o, "spec", "replicas"))
			require.Equal(r, int64(3), o.GetGeneration())
			require.Equal(r, int64(1), number(o, "status", "replicas"))
			_, err = r.sets().Update(r.Context(), scale, metav1.UpdateOptions{}, "scale")
			r.refused(err, 409, metav1.StatusReasonConflict)
			require.NoError(r, set64(scale, -1, "spec", "replicas"))
			scale.SetResourceVersion("")
			_, err = r.sets().Update(r.Context(), scale, metav1.UpdateOptions{}, "scale")
			r.refused(err, 422, metav1.StatusReasonInvalid)
		}},
		{"a lease has one holder", func(r *rig) {
			leases := r.kube.CoordinationV1().Leases(r.ns)
			one, two := "one", "two"
			first, err := leases.Create(r.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
				metav1.CreateOptions{})
			require.NoError(r, err)
			mine, theirs := first.DeepCopy(), first.DeepCopy()
			mine.Spec.HolderIdentity, theirs.Spec.HolderIdentity = &one, &two
			_, err = leases.Update(r.Context(), mine, metav1.UpdateOptions{})
			require.NoError(r, err)
			_, err = leases.Update(r.Context(), theirs, metav1.UpdateOptions{})
			r.refused(err, 409, metav1.StatusReasonConflict)
		}},
		{"revisions and secrets are made once", func(r *rig) {
			revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "a"},
				Data: runtime.RawExtension{Raw: []byte(`{"a":1}`)}, Revision: 1}
			made, err := r.kube.AppsV1().ControllerRevisions(r.ns).Create(r.Context(), revision, metav1.CreateOptions{})
			require.NoError(r, err)
			require.JSONEq(r, `{"a":1}`, string(made.Data.Raw))
			_, err = r.kube.AppsV1().ControllerRevisions(r.ns).Create(r.Context(), revision, metav1.CreateOptions{})
			r.refused(err, 409, metav1.StatusReasonAlreadyExists)
			made.Data.Raw = []byte(`{"a":2}`)
			_, err = r.kube.AppsV1().ControllerRevisions(r.ns).Update(r.Context(), made, metav1.UpdateOptions{})
			r.refused(err, 422, metav1.StatusReasonInvalid)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}, StringData: map[string]string{"k": "v"}}
			stored, err := r.kube.CoreV1().Secrets(r.ns).Create(r.Context(), secret, metav1.CreateOptions{})
			require.NoError(r, err)
			require.Equal(r, "v", string(stored.Data["k"]))
			require.Empty(r, stored.StringData)
			_, err = r.kube.CoreV1().Secrets(r.ns).Create(r.Context(), secret, metav1.CreateOptions{})
			r.refused(err, 409, metav1.StatusReasonAlreadyExists)
		}},
		{"events", func(r *rig) {
			event := func(namespace string) *corev1.Event {
				return &corev1.Event{
					ObjectMeta:     metav1.ObjectMeta{Name: "a", Namespace: r.ns},
					InvolvedObject: corev1.ObjectReference{Kind: "VirtualMachine", Namespace: namespace, Name: "web"},
					Type:           "Normal", Reason: "Started", Count: 1,
				}
			}
			_, err := r.kube.CoreV1().Events(r.ns).Create(r.Context(), event("default"), metav1.CreateOptions{})
			r.refused(err, 422, metav1.StatusReasonInvalid)
			_, err = r.kube.CoreV1().Events(r.ns).Create(r.Context(), event(r.ns), metav1.CreateOptions{})
			require.NoError(r, err)
			_, err = r.kube.CoreV1().Events(r.ns).Create(r.Context(), event(r.ns), metav1.CreateOptions{})
			r.refused(err, 409, metav1.StatusReasonAlreadyExists)
			list, err := r.kube.CoreV1().Events(r.ns).
				List(r.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=web"})
			require.NoError(r, err)
			require.Len(r, list.Items, 1)
		}},
		{"nodes", func(r *rig) {
			nodes := r.kube.CoreV1().Nodes()
			name := r.ns
			node, err := nodes.Create(r.Context(), &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"a": "b", "k": "l"}},
				Spec:       corev1.NodeSpec{Unschedulable: true},
			}, metav1.CreateOptions{})
			require.NoError(r, err)
			defer func() { _ = nodes.Delete(r.Context(), name, metav1.DeleteOptions{}) }()
			node, err = nodes.Patch(r.Context(), name, types.MergePatchType,
				[]byte(`{"metadata":{"uid":"`+string(node.UID)+
					`","labels":{"a":null}},"status":{"phase":"Running"}}`), metav1.PatchOptions{})
			require.NoError(r, err)
			require.NotContains(r, node.Labels, "a")
			require.Equal(r, "l", node.Labels["k"])
			require.Empty(r, node.Status.Phase)
			_, err = nodes.Patch(r.Context(), name, types.MergePatchType, []byte(`{"metadata":{"uid":"`+notThis+`"}}`),
				metav1.PatchOptions{})
			status := r.refused(err, 422, metav1.StatusReasonInvalid)
			require.Equal(r, "metadata.uid", status.Details.Causes[0].Field)
			require.NoError(r, nodes.Delete(r.Context(), name, metav1.DeleteOptions{}))
			_, err = nodes.Get(r.Context(), name, metav1.GetOptions{})
			r.refused(err, 404, metav1.StatusReasonNotFound)
		}},
	}
}

func set64(o *object, n int64, path ...string) error {
	m := o.Object
	for _, p := range path[:len(path)-1] {
		next, ok := m[p].(map[string]any)
		if !ok {
			return errors.New("no such field: " + p)
		}
		m = next
	}
	m[path[len(path)-1]] = n
	return nil
}
