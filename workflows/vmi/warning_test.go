package vmi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/cluster"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// TestShowsAbsentSecret: the kubelet reports it in an event only, and not in the pod's status. The message is shown
// within seconds, and removed when the pod runs.
func TestShowsAbsentSecret(t *testing.T) {
	w := newWorld(t)
	const absent = `MountVolume.SetUp failed for volume "app" : secret "app" not found`
	w.at(0, func() { w.CreateVMI() })
	w.at(time.Second, func() {
		w.PlacePod()
		_, err := kube.Put(w.Kube, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "mount"}, Type: corev1.EventTypeWarning,
			Reason: "FailedMount", Message: absent, InvolvedObject: corev1.ObjectReference{Kind: "Pod",
				Namespace: cluster.Namespace, Name: w.Pod().Name, UID: types.UID(w.Pod().UID)},
		})
		require.NoError(t, err)
	})
	w.at(20*time.Second, func() {
		c := w.condition("Synchronized")
		require.Equal(t, "False FailedMount "+absent, c.Status+" "+c.Reason+" "+c.Message)
		require.Equal(t, 1, w.Count(contract.ActivityReadPodWarning))
	})
	w.at(time.Hour, func() {
		require.LessOrEqual(t, w.Count(contract.ActivityReadPodWarning), 16, "after 15 s, doubled up to 5 min")
		require.Equal(t, "FailedMount", w.condition("Synchronized").Reason)
		w.BeginPod()
	})
	w.at(time.Hour+time.Minute, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.Empty(t, w.condition("Synchronized").Type)
		w.DeleteVMI()
	})
	w.at(time.Hour+2*time.Minute, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
}

// TestUnreadableEventsAreNoFailure: without a reason the entity waits for the pod as before.
func TestUnreadableEventsAreNoFailure(t *testing.T) {
	w := newWorld(t)
	w.Fail = func(a string) error {
		if a == contract.ActivityReadPodWarning {
			return temporal.NewNonRetryableApplicationError("events is forbidden", contract.ErrorForbidden, nil)
		}
		return nil
	}
	w.at(0, func() { w.CreateVMI() })
	w.at(time.Minute, func() { require.Empty(t, w.condition("Synchronized").Type) })
	w.at(3*time.Minute, func() {
		require.Equal(t, "LauncherPodNotRunning", w.condition("Synchronized").Reason)
		w.RunPod()
	})
	w.at(4*time.Minute, func() { require.Equal(t, "Running", w.VMIStatus.Phase); w.DeleteVMI() })
	w.at(5*time.Minute, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
}
