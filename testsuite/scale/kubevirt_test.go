package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubevirt "kubevirt.io/api/core/v1"
)

func TestRequestsOfKubeVirt(t *testing.T) {
	for agent, is := range map[string]bool{
		"virt-controller/v0.0.0 (linux/amd64) kubernetes/$Format": true, "virt-api/v0.0.0": true, "virt-handler": true,
		"virtflow-control-worker": false, "scale": false, "kubectl/v1.36.3": false,
	} {
		require.Equal(t, is, kubeVirt{}.isOwn(agent), agent)
	}
	require.False(t, virtflow{}.isOwn("virt-controller/v0.0.0"))
}

// TestVirtHandlerWrites plays a VMI's life on its node: it is defined, runs, and is shut down, by one write each.
func TestVirtHandlerWrites(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	vmi := &kubevirt.VirtualMachineInstance{Spec: small()}
	vmi.Status = kubevirt.VirtualMachineInstanceStatus{Phase: kubevirt.Scheduled,
		VolumeStatus: []kubevirt.VolumeStatus{{Name: "root"}}, Memory: &kubevirt.MemoryStatus{}}

	vmi = next(vmi, false, now)
	require.Equal(t, kubevirt.Scheduled, vmi.Status.Phase)
	require.Len(t, vmi.Status.Conditions, 2)
	require.Empty(t, vmi.Status.PhaseTransitionTimestamps)
	require.Nil(t, next(vmi, false, now), "the guest does not run")

	vmi = next(vmi, true, now)
	require.Equal(t, kubevirt.Running, vmi.Status.Phase)
	require.Equal(t, "default", vmi.Status.Interfaces[0].Name)
	require.Equal(t, "vda", vmi.Status.VolumeStatus[0].Target)
	require.Nil(t, next(vmi, true, now), "nothing has changed")

	deleted := metav1.NewTime(now)
	vmi.DeletionTimestamp = &deleted
	vmi = next(vmi, true, now)
	require.Equal(t, kubevirt.Succeeded, vmi.Status.Phase)
	require.Len(t, vmi.Status.PhaseTransitionTimestamps, 2)
	require.Nil(t, next(vmi, false, now))

	early := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deleted},
		Status: kubevirt.VirtualMachineInstanceStatus{Phase: kubevirt.Scheduled}}
	require.Equal(t, kubevirt.Failed, next(early, false, now).Status.Phase, "it never ran")
}

func TestPodEndsAfterGuest(t *testing.T) {
	now := metav1.Now()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: types.UID("8f7e979"), DeletionTimestamp: &now,
			Finalizers: []string{"a/test"}, Labels: map[string]string{kubevirt.CreatedByLabel: "vmi"}},
		Spec:   corev1.PodSpec{NodeName: "simulated0", Containers: []corev1.Container{{Name: "compute"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	clients := fake.NewClientset(pod)
	k := kubeVirt{guests: newGuests()}
	r := &run{kubernetes: clients, loaded: k}
	looked := 0
	sync := func() corev1.PodPhase {
		require.NoError(t, r.sync(t.Context(), pod, func() { looked++ }))
		got, err := clients.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
		require.NoError(t, err)
		return got.Status.Phase
	}
	k.guests.start("vmi")
	require.Equal(t, corev1.PodRunning, sync())
	require.True(t, k.guests.stop("vmi"))
	require.False(t, k.guests.stop("vmi"), "it was asked to stop before")
	require.Equal(t, corev1.PodRunning, sync())
	k.guests.end("vmi")
	require.Equal(t, 2, looked)
	require.Equal(t, corev1.PodSucceeded, sync())
	require.False(t, k.guests.isRunning("vmi"))
}
