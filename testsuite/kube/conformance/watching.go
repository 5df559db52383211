package conformance

import (
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// seen reads the next event of a watch.
func (r *rig) seen(w watch.Interface) (watch.EventType, *object) {
	r.Helper()
	select {
	case e, ok := <-w.ResultChan():
		require.True(r, ok, "the watch ended")
		o, ok := e.Object.(*unstructured.Unstructured)
		require.True(r, ok, "%T", e.Object)
		return e.Type, o
	case <-time.After(patience):
		require.Fail(r, "no event")
		return "", nil
	}
}

func versionOf(r *rig, o *object) int64 {
	r.Helper()
	n, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	require.NoError(r, err)
	return n
}

func watching() []testCase {
	return []testCase{
		{"a watch continues from a list", func(r *rig) {
			r.create(r.vms(), r.vm("before", ""))
			list, err := r.vms().List(r.Context(), metav1.ListOptions{})
			require.NoError(r, err)
			require.Len(r, list.Items, 1)
			w, err := r.vms().Watch(r.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
			require.NoError(r, err)
			defer w.Stop()
			r.create(r.vms(), r.vm("a", `"finalizers":["a.b/c"]`))
			r.create(r.vmis(), r.vmi("a", "")) // of another kind
			r.merged(r.vms(), "a", "status", `{"status":{"created":true}}`)
			r.merged(r.vms(), "a", "status", `{"status":{"created":true}}`) // nothing
			r.delete(r.vms(), "a", metav1.DeleteOptions{})
			r.merged(r.vms(), "a", "", `{"metadata":{"finalizers":null}}`)
			r.delete(r.vms(), "before", metav1.DeleteOptions{})
			last := int64(0)
			for _, want := range []struct {
				kind watch.EventType
				name string
			}{{watch.Added, "a"}, {watch.Modified, "a"}, {watch.Modified, "a"}, {watch.Deleted, "a"}, {watch.Deleted,
				"before"}} {
				kind, o := r.seen(w)
				require.Equal(r, want.kind, kind)
				require.Equal(r, want.name, o.GetName())
				require.Greater(r, versionOf(r, o), last)
				last = versionOf(r, o)
			}
		}},
		{"a selector sees what leaves it as deleted", func(r *rig) {
			list, err := r.vms().List(r.Context(), metav1.ListOptions{LabelSelector: "x=y"})
			require.NoError(r, err)
			w, err := r.vms().Watch(r.Context(),
				metav1.ListOptions{LabelSelector: "x=y", ResourceVersion: list.GetResourceVersion()})
			require.NoError(r, err)
			defer w.Stop()
			r.create(r.vms(), r.vm("a", ""))
			r.merged(r.vms(), "a", "", `{"metadata":{"labels":{"x":"y"}}}`)
			r.merged(r.vms(), "a", "", `{"metadata":{"labels":{"x":"z"}}}`)
			kind, _ := r.seen(w)
			require.Equal(r, watch.Added, kind)
			kind, o := r.seen(w)
			require.Equal(r, watch.Deleted, kind)
			require.Equal(r, r.get(r.vms(), "a").GetResourceVersion(), o.GetResourceVersion())
		}},
		{"a watch of one object by its name", func(r *rig) {
			r.create(r.vms(), r.vm("a", ""))
			r.create(r.vms(), r.vm("b", ""))
			w, err := r.vms().Watch(r.Context(), metav1.ListOptions{FieldSelector: "metadata.name=b"})
			require.NoError(r, err)
			defer w.Stop()
			kind, o := r.seen(w)
			require.Equal(r, []any{watch.Added, "b"}, []any{kind, o.GetName()})
		}},
		{"lists by labels and fields", func(r *rig) {
			r.create(r.pods(), r.pod("a", `"labels":{"x":"y"}`, nowhere))
			r.create(r.pods(), r.pod("b", "", ""))
			for _, o := range []metav1.ListOptions{
				{LabelSelector: "x=y"}, {LabelSelector: "x in (y,z)"}, {FieldSelector: "spec.nodeName=" + nowhere},
				{FieldSelector: "metadata.name!=b"},
			} {
				list, err := r.pods().List(r.Context(), o)
				require.NoError(r, err)
				require.Len(r, list.Items, 1, "%v", o)
				require.Equal(r, "a", list.Items[0].GetName())
			}
			r.delete(r.pods(), "a", grace(0))
		}},
		{"an informer", func(r *rig) {
			factory := informers.NewSharedInformerFactoryWithOptions(r.kube, 0, informers.WithNamespace(r.ns))
			informer := factory.Core().V1().Pods().Informer()
			r.create(r.pods(), r.pod("a", "", ""))
			go informer.RunWithContext(r.Context())
			require.True(r, cache.WaitForCacheSync(r.Context().Done(), informer.HasSynced))
			_, ok, err := informer.GetStore().GetByKey(r.ns + "/a")
			require.NoError(r, err)
			require.True(r, ok)
			r.merged(r.pods(), "a", "status", `{"status":{"phase":"Running"}}`)
			r.until("the informer has the change", func() error {
				o, _, err := informer.GetStore().GetByKey(r.ns + "/a")
				if pod, ok := o.(*corev1.Pod); !ok || pod.Status.Phase != corev1.PodRunning {
					return errNotYet
				}
				return err
			})
			r.delete(r.pods(), "a", metav1.DeleteOptions{})
			r.until("the informer has forgotten it", func() error {
				if _, ok, err := informer.GetStore().GetByKey(r.ns + "/a"); ok || err != nil {
					return errNotYet
				}
				return nil
			})
		}},
	}
}
