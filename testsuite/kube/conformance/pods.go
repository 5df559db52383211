package conformance

import (
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func grace(seconds int64) metav1.DeleteOptions {
	return metav1.DeleteOptions{GracePeriodSeconds: &seconds}
}

func pods() []testCase {
	return []testCase{
		{"a new pod", func(r *rig) {
			o := r.pod("a", "", "")
			o.Object["status"] = map[string]any{"phase": "Running"}
			o = r.create(r.pods(), o)
			require.Equal(r, "Pending", text(o, "status", "phase"))
			require.Equal(r, "BestEffort", text(o, "status", "qosClass"))
			require.Equal(r, int64(1), o.GetGeneration())
			require.Equal(r, int64(30), number(o, "spec", "terminationGracePeriodSeconds"))
			require.Equal(r, "Always", text(o, "spec", "restartPolicy"))
		}},
		{"a pod on no node is gone at once", func(r *rig) {
			r.create(r.pods(), r.pod("a", "", ""))
			r.delete(r.pods(), "a", metav1.DeleteOptions{})
			_, err := r.pods().Get(r.Context(), "a", metav1.GetOptions{})
			r.refused(err, 404, metav1.StatusReasonNotFound)
		}},
		{"a pod on a node waits for its kubelet", func(r *rig) {
			first := r.create(r.pods(), r.pod("a", "", nowhere))
			r.delete(r.pods(), "a", metav1.DeleteOptions{})
			o := r.get(r.pods(), "a")
			require.Equal(r, int64(30), *o.GetDeletionGracePeriodSeconds())
			require.Equal(r, first.GetGeneration()+1, o.GetGeneration())
			require.Greater(r, o.GetDeletionTimestamp().Sub(first.GetCreationTimestamp().Time), 29*time.Second)
			r.delete(r.pods(), "a", metav1.DeleteOptions{})
			r.delete(r.pods(), "a", grace(60)) // it is never lengthened
			require.Equal(r, o.Object, r.get(r.pods(), "a").Object)
			r.delete(r.pods(), "a", grace(5))
			shorter := r.get(r.pods(), "a")
			require.Equal(r, int64(5), *shorter.GetDeletionGracePeriodSeconds())
			require.Equal(r, -25*time.Second, shorter.GetDeletionTimestamp().Sub(o.GetDeletionTimestamp().Time))
			require.Equal(r, o.GetGeneration(), shorter.GetGeneration())
			r.delete(r.pods(), "a", grace(0))
			_, err := r.pods().Get(r.Context(), "a", metav1.GetOptions{})
			r.refused(err, 404, metav1.StatusReasonNotFound)
		}},
		{"a pod with a finalizer needs both, kubelet first", func(r *rig) {
			r.create(r.pods(), r.pod("a", `"finalizers":["a.b/c"]`, nowhere))
			r.delete(r.pods(), "a", metav1.DeleteOptions{})
			r.delete(r.pods(), "a", grace(0))
			o := r.get(r.pods(), "a")
			require.Equal(r, int64(0), *o.GetDeletionGracePeriodSeconds())
			require.Equal(r, []string{"a.b/c"}, o.GetFinalizers())
			r.delete(r.pods(), "a", grace(0))
			require.Equal(r, o.Object, r.get(r.pods(), "a").Object)
			r.merged(r.pods(), "a", "", `{"metadata":{"finalizers":null}}`)
			_, err := r.pods().Get(r.Context(), "a", metav1.GetOptions{})
			r.refused(err, 404, metav1.StatusReasonNotFound)
		}},
		{"a pod with a finalizer needs both, finalizer first", func(r *rig) {
			r.create(r.pods(), r.pod("a", `"finalizers":["a.b/c"]`, nowhere))
			r.delete(r.pods(), "a", metav1.DeleteOptions{})
			o := r.merged(r.pods(), "a", "", `{"metadata":{"finalizers":null}}`)
			require.NotNil(r, o.GetDeletionTimestamp())
			require.Equal(r, int64(30), *r.get(r.pods(), "a").GetDeletionGracePeriodSeconds())
			r.delete(r.pods(), "a", grace(0))
			_, err := r.pods().Get(r.Context(), "a", metav1.GetOptions{})
			r.refused(err, 404, metav1.StatusReasonNotFound)
		}},
		{"a forced deletion leaves a pod with a finalizer", func(r *rig) {
			r.create(r.pods(), r.pod("a", `"finalizers":["a.b/c"]`, nowhere))
			r.delete(r.pods(), "a", grace(0))
			o := r.get(r.pods(), "a")
			require.NotNil(r, o.GetDeletionTimestamp())
			require.Equal(r, int64(0), *o.GetDeletionGracePeriodSeconds())
			r.merged(r.pods(), "a", "", `{"metadata":{"finalizers":null}}`)
			r.absent(r.pods(), "a")
		}},
		{"a pod that has ended is gone at once", func(r *rig) {
			for _, phase := range []string{"Succeeded", "Failed"} {
				r.create(r.pods(), r.pod("a", "", nowhere))
				r.merged(r.pods(), "a", "status", `{"status":{"phase":%q}}`, phase)
				r.delete(r.pods(), "a", metav1.DeleteOptions{})
				_, err := r.pods().Get(r.Context(), "a", metav1.GetOptions{})
				r.refused(err, 404, metav1.StatusReasonNotFound)
			}
		}},
		{"the UID of a pod is a precondition", func(r *rig) {
			r.create(r.pods(), r.pod("a", "", nowhere))
			o := grace(0)
			o.Preconditions = metav1.NewUIDPreconditions(notThis)
			r.refused(r.pods().Delete(r.Context(), "a", o), 409, metav1.StatusReasonConflict)
			r.delete(r.pods(), "a", grace(0))
		}},
		{"halves of a pod", func(r *rig) {
			r.create(r.pods(), r.pod("a", "", ""))
			o := r.merged(r.pods(), "a", "status",
				`{"metadata":{"labels":{"x":"y"}},"spec":{"activeDeadlineSeconds":9},"status":{"phase":"Running"}}`)
			require.Equal(r, "Running", text(o, "status", "phase"))
			require.Zero(r, number(o, "spec", "activeDeadlineSeconds"))
			require.Equal(r, map[string]string{"x": "y"}, o.GetLabels())
			require.Equal(r, int64(1), o.GetGeneration())
			o = r.merged(r.pods(), "a", "", `{"spec":{"activeDeadlineSeconds":9},"status":{"phase":"Failed"}}`)
			require.Equal(r, "Running", text(o, "status", "phase"))
			require.Equal(r, int64(9), number(o, "spec", "activeDeadlineSeconds"))
			require.Equal(r, int64(2), o.GetGeneration())
			_, err := r.merge(r.pods(), "a", "", `{"spec":{"hostNetwork":true}}`)
			r.refused(err, 422, metav1.StatusReasonInvalid)
		}},
		{"binding", func(r *rig) {
			o := r.create(r.pods(), r.pod("a", "", ""))
			bind := func(name string, uid types.UID) error {
				return r.kube.CoreV1().Pods(r.ns).Bind(r.Context(), &corev1.Binding{
					ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid},
					Target:     corev1.ObjectReference{Kind: "Node", Name: nowhere},
				}, metav1.CreateOptions{})
			}
			r.refused(bind("a", notThis), 409, metav1.StatusReasonConflict)
			require.NoError(r, bind("a", o.GetUID()))
			bound := r.get(r.pods(), "a")
			require.Equal(r, nowhere, text(bound, "spec", "nodeName"))
			require.Equal(r, "True", conditionOf(bound, "PodScheduled"))
			r.refused(bind("a", ""), 409, metav1.StatusReasonConflict)
			r.refused(bind("none", ""), 404, metav1.StatusReasonNotFound)
			r.delete(r.pods(), "a", grace(0))
		}},
		{"eviction", func(r *rig) {
			r.create(r.pods(), r.pod("a", "", nowhere))
			evict := func(name string) error {
				return r.kube.PolicyV1().Evictions(r.ns).
					Evict(r.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.ns}})
			}
			require.NoError(r, evict("a"))
			require.Equal(r, int64(30), *r.get(r.pods(), "a").GetDeletionGracePeriodSeconds())
			r.refused(evict("none"), 404, metav1.StatusReasonNotFound)
			r.delete(r.pods(), "a", grace(0))
		}},
	}
}
