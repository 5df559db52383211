package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	fakekube "github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/workflows/contract"
)

// running is an instance with a pod that runs on a node.
func (w *world) running(t *testing.T) (vmi, pod contract.Object, seen contract.PodObservation) {
	t.Helper()
	if w.fake == nil {
		t.Skip("a real API server has a scheduler of its own")
	}
	_, vmi = w.machine(t)
	made, err := w.CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
	require.NoError(t, err)
	pod = contract.Object{Namespace: w.ns, Name: made.Pod.Name, UID: made.Pod.UID}
	require.NoError(t, w.kubernetes.CoreV1().Pods(w.ns).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node1"},
	}, metav1.CreateOptions{}))
	w.podIs(t, pod.Name, corev1.PodRunning)
	found, err := w.FindLauncherPod(t.Context(), contract.FindPodInput{VMI: vmi})
	require.NoError(t, err)
	return vmi, pod, *found.Pod
}

func (w *world) podIs(t *testing.T, name string, phase corev1.PodPhase) {
	t.Helper()
	_, err := fakekube.Edit(w.fake, w.ns, name, "status", func(p *corev1.Pod) { p.Status.Phase = phase })
	require.NoError(t, err)
}

func (w *world) node(t *testing.T, ready corev1.ConditionStatus) {
	t.Helper()
	_, err := w.kubernetes.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node1"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// TestThePodOfAnInstanceThatIsWantedStays, whatever is remembered of the instance's deletion.
func TestThePodOfAnInstanceThatIsWantedStays(t *testing.T) {
	w := newWorld(t)
	vmi, pod, _ := w.running(t)
	in := contract.DeletePodInput{VMI: vmi, Pod: pod}
	out, err := w.DeleteLauncherPod(t.Context(), in)
	require.NoError(t, err)
	require.Contains(t, out.Refused, "not being deleted now")
	require.Equal(t, vmi.UID, out.VMI.UID)
	_, err = fakekube.Edit(w.fake, w.ns, "web", "", func(v *kubevirt.VirtualMachineInstance) { v.Status.Phase = kubevirt.Failed })
	require.NoError(t, err)
	out, err = w.DeleteLauncherPod(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, contract.DeletePodResult{}, out, "it has ended")
}

// TestAPodIsDeletedByForceOnlyFromANodeThatIsNotWell: a confirmation, or a taint, from earlier does not count against one that is.
func TestAPodIsDeletedByForceOnlyFromANodeThatIsNotWell(t *testing.T) {
	for status, refused := range map[corev1.ConditionStatus]bool{corev1.ConditionTrue: true, corev1.ConditionUnknown: false, "no node": false} {
		t.Run(string(status), func(t *testing.T) {
			w := newWorld(t)
			vmi, pod, seen := w.running(t)
			if status != "no node" {
				w.node(t, status)
			}
			removed, err := w.RemovePodFinalizer(t.Context(), contract.RemovePodFinalizerInput{Pod: pod, ResourceVersion: seen.ResourceVersion, FencedNode: "node1"})
			require.NoError(t, err)
			require.Equal(t, refused, removed.Refused != "")
			out, err := w.DeleteLauncherPod(t.Context(), contract.DeletePodInput{VMI: vmi, Pod: pod, Grace: new(int64), FencedNode: "node1"})
			require.NoError(t, err)
			require.Equal(t, refused, out.Refused != "")
			if refused {
				require.True(t, out.Node.Ready)
				require.Equal(t, pod.UID, out.Node.PodUID)
			}
			found, err := w.FindLauncherPod(t.Context(), contract.FindPodInput{VMI: vmi})
			require.NoError(t, err)
			require.Equal(t, refused, found.Pod != nil)
		})
	}
}

// TestTheFinalizerStaysUntilThePodHasEnded: it is removed in the version in which the end was seen, or after another look.
func TestTheFinalizerStaysUntilThePodHasEnded(t *testing.T) {
	w := newWorld(t)
	vmi, pod, seen := w.running(t)
	in := contract.RemovePodFinalizerInput{Pod: pod, ResourceVersion: "1"}
	out, err := w.RemovePodFinalizer(t.Context(), in)
	require.NoError(t, err)
	require.Contains(t, out.Refused, "has not ended")
	require.Equal(t, seen.ResourceVersion, out.Pod.ResourceVersion)

	patched, err := w.PatchVMI(t.Context(), contract.PatchVMIInput{VMI: vmi, ResourceVersion: w.there(t, "web").ResourceVersion, Finalizers: &[]string{}})
	require.NoError(t, err)
	require.Equal(t, "its pod has not ended", patched.Refused)
	require.Equal(t, pod.UID, patched.Pod.UID)
	require.NotEmpty(t, w.there(t, "web").Finalizers)

	w.podIs(t, pod.Name, corev1.PodSucceeded)
	out, err = w.RemovePodFinalizer(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, contract.RemovePodFinalizerResult{}, out)
	patched, err = w.PatchVMI(t.Context(), contract.PatchVMIInput{VMI: vmi, ResourceVersion: w.there(t, "web").ResourceVersion, Finalizers: &[]string{}})
	require.NoError(t, err)
	require.True(t, patched.Written)
}

// TestAnInstanceIsBootedOnce: one that has had a pod that ran gets no other, whatever is remembered.
func TestAnInstanceIsBootedOnce(t *testing.T) {
	for _, phase := range []kubevirt.VirtualMachineInstancePhase{kubevirt.Scheduled, kubevirt.Running, kubevirt.Succeeded, kubevirt.Failed} {
		w := newWorld(t)
		_, vmi := w.machine(t)
		_, err := fakekube.Edit(w.fake, w.ns, "web", "", func(v *kubevirt.VirtualMachineInstance) { v.Status.Phase = phase })
		require.NoError(t, err)
		out, err := w.again(t).CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
		require.NoError(t, err)
		require.Contains(t, out.Refused, "never booted again")
		require.Equal(t, string(phase), out.VMI.Phase)
		pods, err := w.kubernetes.CoreV1().Pods(w.ns).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, pods.Items)
	}
}
