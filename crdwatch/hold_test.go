package crdwatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// TestWhatAPodSaysOnItsWayOut waits only where the end of its VMI is on its way, and where more is to come.
func TestWhatAPodSaysOnItsWayOut(t *testing.T) {
	held := func(d *differ, workflow string) []time.Duration {
		var out []time.Duration
		for _, x := range outbox(d).pending[workflow] {
			out = append(out, x.Hold)
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
			d.pod("a/launcher", change)
			return held(d, "vmi/a/web")
		}
		only := func(hold time.Duration) []time.Duration {
			if !going {
				hold = 0
			}
			return []time.Duration{hold}
		}
		grace := int64(30)
		require.Equal(t, only(0), says(func() {}), "it runs")
		require.Equal(t, only(echoHold), says(func() {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, &grace
		}), "it is deleted")
		require.Equal(t, only(endHold), says(func() { pod.Status.Phase = corev1.PodSucceeded }), "it has ended")
		none := int64(0)
		require.Equal(t, only(0), says(func() { pod.DeletionGracePeriodSeconds = &none }), "it is deleted for good")
		require.Equal(t, only(echoHold), says(func() { pod.Finalizers = nil }), "its finalizer is removed")
		d.podGone(pod, change)
		require.Equal(t, []time.Duration{endHold}, held(d, "vmi/a/web"), "it is gone")
		d.podGone(pod, change)
		require.Equal(t, []time.Duration{0}, held(d, "vmi/a/web"), "it is gone, and was not known")
		d.entities.vmi.vanished(d, vmi, change)
		require.Equal(t, []time.Duration{endHold}, held(d, "vmi/a/web"))
		d.entities.vmi.vanished(d, vmi, resync)
		require.Equal(t, []time.Duration{0}, held(d, "vmi/a/web"), "nobody has heard of it")
	}
}

// TestWhatAnInstanceSaysToItsVM waits while it goes.
func TestWhatAnInstanceSaysToItsVM(t *testing.T) {
	now := time.Now()
	lives, goes := contract.VMIObservation{}, contract.VMIObservation{DeletionTimestamp: &now}
	require.Zero(t, copyHold(lives, false, false))
	require.Zero(t, copyHold(lives, true, false), "it is orphaned, or its VM's workflow has yet to delete it")
	require.Equal(t, endHold, copyHold(goes, false, false))
	require.Equal(t, goingHold, copyHold(goes, true, false))
	require.Equal(t, madeHold, copyHold(lives, false, true))
}

// TestHeld: all that waits for a workflow waits until the first of it may not.
func TestHeld(t *testing.T) {
	now := time.Now()
	waits := func(hold, since time.Duration) *Delivery { return &Delivery{Hold: hold, since: now.Add(-since)} }
	for name, c := range map[string]struct {
		list []*Delivery
		want time.Duration
	}{
		"nothing":                {nil, 0},
		"one":                    {[]*Delivery{waits(3*time.Second, time.Second)}, 2 * time.Second},
		"the second is urgent":   {[]*Delivery{waits(3*time.Second, 0), waits(0, 0)}, 0},
		"the second is earlier":  {[]*Delivery{waits(3*time.Second, 0), waits(time.Second, 0)}, time.Second},
		"the first has waited":   {[]*Delivery{waits(time.Second, time.Second), waits(time.Second, 0)}, 0},
		"the second has waited":  {[]*Delivery{waits(time.Second, 0), waits(time.Second, 2*time.Second)}, 0},
		"the first is the first": {[]*Delivery{waits(time.Second, 0), waits(3*time.Second, 0)}, time.Second},
	} {
		require.Equal(t, c.want, Held(c.list, now), name)
	}
}

// TestWhatIsUrgentStaysUrgent, whatever takes its place.
func TestWhatIsUrgentStaysUrgent(t *testing.T) {
	of := func(hold time.Duration) *Delivery { return &Delivery{Workflow: "w", Signal: "s", UID: "u", Hold: hold} }
	later := of(time.Second)
	require.True(t, later.Supersede(of(0)))
	require.Zero(t, later.Hold)
	later = of(time.Second)
	require.True(t, later.Supersede(of(2*time.Second)))
	require.Equal(t, time.Second, later.Hold)
	sent := of(0)
	sent.sending = true
	later = of(time.Second)
	require.True(t, later.Supersede(sent))
	require.Equal(t, time.Second, later.Hold, "that is on its way")
}
