package cluster_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster"
	"github.com/virtflow/virtflow/contract"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

// onDevice makes the claim "c", and instances whose disk it is.
func (w *world) onDevice(
	t *testing.T, mode corev1.PersistentVolumeMode, shareable bool, names ...string,
) []contract.CreatePodInput {
	t.Helper()
	_, err := fakekube.Put(w.fake, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "c"},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeMode: &mode,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}},
	})
	require.NoError(t, err)
	var out []contract.CreatePodInput
	for _, name := range names {
		source := &kubevirt.PersistentVolumeClaimVolumeSource{}
		source.ClaimName = "c"
		vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
		vmi.Spec.Volumes = []kubevirt.Volume{{Name: "data",
			VolumeSource: kubevirt.VolumeSource{PersistentVolumeClaim: source}}}
		vmi.Spec.Domain.Devices.Disks = []kubevirt.Disk{{Name: "data", Shareable: &shareable}}
		made, err := w.kubevirt.VMIs(w.ns).Create(t.Context(), vmi, metav1.CreateOptions{})
		require.NoError(t, err)
		out = append(out, contract.CreatePodInput{
			VMI: contract.Object{Namespace: w.ns, Name: name, UID: string(made.UID)}})
	}
	return out
}

func makePod(t *testing.T, a *cluster.Activities, in contract.CreatePodInput) contract.CreatePodResult {
	t.Helper()
	out, err := a.CreateLauncherPod(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, out.Awaits == nil, out.Pod.UID != "")
	return out
}

// TestOneGuestPerDevice: only the pod of the other shows that it has, and QEMU's locks do not meet.
func TestOneGuestPerDevice(t *testing.T) {
	w := newWorld(t)
	in := w.onDevice(t, corev1.PersistentVolumeBlock, false, "a", "b")
	first := makePod(t, w.Activities, in[0])
	require.Nil(t, first.Awaits)
	second := makePod(t, w.Activities, in[1])
	require.Equal(t, &contract.Awaits{Reason: "PvcInUse", Message: "PVC default/c is a block device that pod " +
		first.Pod.Name + " uses, waiting for its end: it is one guest's at a time, unless the disks of all are shareable"},
		second.Awaits)
	require.Equal(t, first.Pod.UID, makePod(t, w.again(t), in[0]).Pod.UID, "an instance waits for its own pod")

	_, err := fakekube.Edit(w.fake, w.ns, first.Pod.Name, "status", func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
	})
	require.NoError(t, err)
	require.Nil(t, makePod(t, w.Activities, in[1]).Awaits)
}

func TestSeveralGuestsHaveADiskThatTheyShare(t *testing.T) {
	for mode, shareable := range map[corev1.PersistentVolumeMode]bool{
		corev1.PersistentVolumeBlock: true, corev1.PersistentVolumeFilesystem: false, // QEMU locks the file
	} {
		w := newWorld(t)
		for _, in := range w.onDevice(t, mode, shareable, "a", "b") {
			require.Nil(t, makePod(t, w.Activities, in).Awaits, mode)
		}
	}
}

// TestFirstPodGetsDevice: the first of two pods gets the device, also where an answer is lost on the way.
func TestFirstPodGetsDevice(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld(t)
		in := w.onDevice(t, corev1.PersistentVolumeBlock, false, "a", "b")
		var first contract.CreatePodResult
		lists := 0
		w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
			switch {
			case r.Resource == "pods" && r.Verb == "create" && lists == 1: // b has looked, and makes its pod now
				lists = -10
				first = makePod(t, w.again(t), in[0])
				lists = 2
			case r.Resource == "pods" && r.Verb == "list":
				if lists++; lists == 3 && lost {
					return &fakekube.Fault{Err: errors.New("cut off")}
				}
			}
			return nil
		})
		out, err := w.CreateLauncherPod(t.Context(), in[1])
		if lost {
			require.Error(t, err)
			require.Len(t, fakekube.List[corev1.Pod](w.fake, w.ns), 2)
			out, err = w.CreateLauncherPod(t.Context(), in[1])
		}
		require.NoError(t, err)
		require.Equal(t, "PvcInUse", out.Awaits.Reason)
		require.NotEmpty(t, out.Discarded)
		require.Nil(t, first.Awaits)
		left := fakekube.List[corev1.Pod](w.fake, w.ns)
		require.Len(t, left, 1)
		require.Equal(t, first.Pod.Name, left[0].Name)
	}
}

// TestWhoWasFirstDoesNotYield: the first pod keeps the device when a second pod is made before the first one's activity
// has looked for a conflict.
func TestWhoWasFirstDoesNotYield(t *testing.T) {
	w := newWorld(t)
	in := w.onDevice(t, corev1.PersistentVolumeBlock, false, "a", "b")
	lists := 0
	w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
		if r.Resource != "pods" || r.Verb != "list" {
			return nil
		}
		if lists++; lists == 2 {
			_, err := fakekube.Put(w.fake, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "other",
				Labels: map[string]string{contract.LabelLauncher: contract.LabelLauncherValue}},
				Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "claim-data",
					VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
						ClaimName: "c"}}}}}})
			require.NoError(t, err)
		}
		return nil
	})
	require.Nil(t, makePod(t, w.Activities, in[0]).Awaits)
	require.Equal(t, 2, lists)
	require.Equal(t, "PvcInUse", makePod(t, w.Activities, in[1]).Awaits.Reason, "it is unknown what the other pod does with it")
}
