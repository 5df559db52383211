package conformance

import (
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

func (r *rig) delete(in dynamic.ResourceInterface, name string, o metav1.DeleteOptions) {
	r.Helper()
	require.NoError(r, in.Delete(r.Context(), name, o))
}

func deleting() []testCase {
	return []testCase{
		{"without finalizers it is gone at once", func(r *rig) {
			r.create(r.vms(), r.vm("a", ""))
			r.delete(r.vms(), "a", metav1.DeleteOptions{})
			_, err := r.vms().Get(r.Context(), "a", metav1.GetOptions{})
			r.refused(err, 404, metav1.StatusReasonNotFound)
			r.refused(r.vms().Delete(r.Context(), "a", metav1.DeleteOptions{}), 404, metav1.StatusReasonNotFound)
		}},
		{"finalizers hold it", func(r *rig) {
			const two = `"finalizers":["a.b/c","d.e/f"]`
			for o, in := range map[*object]dynamic.ResourceInterface{r.vm("a", two): r.vms(),
				r.vmi("a", two): r.vmis()} {
				r.create(in, o)
				r.delete(in, "a", metav1.DeleteOptions{})
				marked := r.get(in, "a")
				require.NotNil(r, marked.GetDeletionTimestamp())
				require.Equal(r, int64(2), marked.GetGeneration())
				require.Equal(r, new(int64), marked.GetDeletionGracePeriodSeconds())
				r.delete(in, "a", metav1.DeleteOptions{})
				require.Equal(r, marked.Object, r.get(in, "a").Object)
				_, err := r.merge(in, "a", "", `{"metadata":{"finalizers":["a.b/c","d.e/f","g.h/i"]}}`)
				r.refused(err, 422, metav1.StatusReasonInvalid)
				left := r.merged(in, "a", "", `{"metadata":{"finalizers":["d.e/f"]}}`)
				require.Equal(r, []string{"d.e/f"}, left.GetFinalizers())
				last := r.merged(in, "a", "", `{"metadata":{"finalizers":null}}`)
				require.Empty(r, last.GetFinalizers())
				require.NotNil(r, last.GetDeletionTimestamp())
				_, err = in.Get(r.Context(), "a", metav1.GetOptions{})
				r.refused(err, 404, metav1.StatusReasonNotFound)
			}
		}},
		{"while finalizers hold it, it can be written", func(r *rig) {
			r.create(r.vms(), r.vm("a", `"finalizers":["a.b/c"]`))
			r.delete(r.vms(), "a", metav1.DeleteOptions{})
			require.Equal(r, int64(2), r.merged(r.vms(), "a", "status", `{"status":{"created":true}}`).GetGeneration())
			require.Equal(r, int64(3), r.merged(r.vms(), "a", "", `{"spec":{"runStrategy":"Always"}}`).GetGeneration())
			_, err := r.vms().Create(r.Context(), r.vm("a", ""), metav1.CreateOptions{})
			r.refused(err, 409, metav1.StatusReasonAlreadyExists)
			r.merged(r.vms(), "a", "", `{"metadata":{"finalizers":[]}}`)
			r.absent(r.vms(), "a")
		}},
		{"preconditions", func(r *rig) {
			o := r.create(r.vms(), r.vm("a", `"finalizers":["a.b/c"]`))
			other, uid, old, version := types.UID(notThis), o.GetUID(), "1", o.GetResourceVersion()
			err := r.vms().Delete(r.Context(), "a",
				metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
			r.refused(err, 409, metav1.StatusReasonConflict)
			err = r.vms().Delete(r.Context(), "a",
				metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &old}})
			r.refused(err, 409, metav1.StatusReasonConflict)
			require.Nil(r, r.get(r.vms(), "a").GetDeletionTimestamp())
			r.delete(r.vms(), "a", metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
			err = r.vms().Delete(r.Context(), "a",
				metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
			r.refused(err, 409, metav1.StatusReasonConflict) // also when it is being deleted
			r.merged(r.vms(), "a", "", `{"metadata":{"finalizers":null}}`)
		}},
		{"an empty list of finalizers is none", func(r *rig) {
			r.create(r.vms(), r.vm("a", `"finalizers":[]`))
			r.delete(r.vms(), "a", metav1.DeleteOptions{})
			r.absent(r.vms(), "a")
		}},
		{"many at once", func(r *rig) {
			r.create(r.vms(), r.vm("a", `"labels":{"x":"y"}`))
			r.create(r.vms(), r.vm("b", `"labels":{"x":"y"},"finalizers":["a.b/c"]`))
			r.create(r.vms(), r.vm("c", ""))
			require.NoError(r, r.vms().
				DeleteCollection(r.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "x=y"}))
			r.absent(r.vms(), "a")
			require.NotNil(r, r.get(r.vms(), "b").GetDeletionTimestamp())
			require.Nil(r, r.get(r.vms(), "c").GetDeletionTimestamp())
			r.merged(r.vms(), "b", "", `{"metadata":{"finalizers":null}}`)
		}},
		{"a namespace, and pods before all else in it", func(r *rig) {
			r.create(r.vms(), r.vm("later", ""))
			r.create(r.pods(), r.pod("held", `"finalizers":["a.b/c"]`, ""))
			require.NoError(r, r.kube.CoreV1().Namespaces().Delete(r.Context(), r.ns, metav1.DeleteOptions{}))
			for _, name := range []string{"held", "new"} { // also where the name is taken
				_, err := r.pods().Create(r.Context(), r.pod(name, "", ""), metav1.CreateOptions{})
				status := r.refused(err, 403, metav1.StatusReasonForbidden)
				require.True(r, apierrors.HasStatusCause(err, "NamespaceTerminating"), "%v", status)
			}
			r.until("the pod is being deleted", func() error {
				if r.get(r.pods(), "held").GetDeletionTimestamp() == nil {
					return apierrors.NewTimeoutError("not yet", 0)
				}
				return nil
			})
			r.merged(r.pods(), "held", "", `{"metadata":{"labels":{"x":"y"}}}`)
			ns, err := r.kube.CoreV1().Namespaces().Get(r.Context(), r.ns, metav1.GetOptions{})
			require.NoError(r, err)
			require.Equal(r, "Terminating", string(ns.Status.Phase))
			require.NotNil(r, ns.DeletionTimestamp)
			require.Nil(r, r.get(r.vms(), "later").GetDeletionTimestamp())
			r.merged(r.pods(), "held", "", `{"metadata":{"finalizers":null}}`)
			r.absent(r.vms(), "later")
			r.until("the namespace is gone", func() error {
				_, err := r.kube.CoreV1().Namespaces().Get(r.Context(), r.ns, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return apierrors.NewTimeoutError("still there", 0)
			})
		}},
	}
}
