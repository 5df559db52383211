package diff

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
)

// TestDebouncesEndOfPod: only while its VMI is being deleted, and a further change is to come.
func TestDebouncesEndOfPod(t *testing.T) {
	ownStep := delivery.PolicyOf(delivery.KindPod, delivery.OwnStep).Debounce
	ending := delivery.PolicyOf(delivery.KindPod, delivery.Ending).Debounce
	finalized := delivery.PolicyOf(delivery.KindPod, delivery.Finalized).Debounce
	debounces := func(d *Differ, workflow string) []time.Duration {
		var out []time.Duration
		for _, x := range outbox(d).pending[workflow] {
			out = append(out, x.Debounce)
		}
		delete(outbox(d).pending, workflow)
		return out
	}
	for _, going := range []bool{false, true} {
		d := newTestDiffer(t)
		vmi := testInstance("web", "web", nil)
		if going {
			vmi.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		require.NoError(t, d.informers.VMIs.GetStore().Add(vmi))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "launcher", UID: "p",
			Finalizers: []string{contract.FinalizerPod}, Labels: map[string]string{contract.LabelCreatedBy: "web"},
			OwnerReferences: controlledBy(vmi, "VirtualMachineInstance")}}
		pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodRunning
		says := func(edit func()) []time.Duration {
			pod = pod.DeepCopy()
			edit()
			require.NoError(t, d.informers.Pods.GetStore().Add(pod))
			d.sendPod("a/launcher", change)
			return debounces(d, "vmi/a/web")
		}
		only := func(hold time.Duration) []time.Duration {
			if !going {
				hold = 0
			}
			return []time.Duration{hold}
		}
		grace := int64(30)
		require.Equal(t, only(0), says(func() {}), "it runs")
		require.Equal(t, only(ownStep), says(func() {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, &grace
		}), "it is deleted")
		require.Equal(t, only(ending), says(func() { pod.Status.Phase = corev1.PodSucceeded }), "it has ended")
		none := int64(0)
		require.Equal(t, only(0), says(func() { pod.DeletionGracePeriodSeconds = &none }), "it is deleted for good")
		require.Equal(t, only(ownStep), says(func() { pod.Finalizers = nil }), "its finalizer is removed")
		d.sendPodGone(pod, change)
		require.Equal(t, []time.Duration{finalized}, debounces(d, "vmi/a/web"), "it is gone")
		d.sendPodGone(pod, change)
		require.Equal(t, []time.Duration{0}, debounces(d, "vmi/a/web"), "it is gone, and was not known")
		d.entities.vmi.sendGone(vmi, change)
		require.Equal(t, []time.Duration{ending}, debounces(d, "vmi/a/web"))
		d.entities.vmi.sendGone(vmi, resync)
		require.Equal(t, []time.Duration{0}, debounces(d, "vmi/a/web"), "it was not sent before")
	}
}

// TestDebouncesEndOfInstanceForVM: only while it is being deleted.
func TestDebouncesEndOfInstanceForVM(t *testing.T) {
	now := time.Now()
	lives, goes := contract.VMIObservation{}, contract.VMIObservation{DeletionTimestamp: &now}
	require.Equal(t, delivery.Changed, copyCause(lives, false, false))
	require.Equal(t, delivery.Changed, copyCause(lives, true, false),
		"it is orphaned, or its VM's workflow has yet to delete it")
	require.Equal(t, delivery.Ending, copyCause(goes, false, false))
	require.Equal(t, delivery.EndingWithOwner, copyCause(goes, true, false))
	require.Equal(t, delivery.Created, copyCause(lives, false, true))
}
