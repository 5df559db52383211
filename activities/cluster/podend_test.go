package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
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
	return vmi, pod, found.Pods()[0]
}

func (w *world) podIs(t *testing.T, name string, phase corev1.PodPhase) {
	t.Helper()
	_, err := fakekube.Edit(w.fake, w.ns, name, "status", func(p *corev1.Pod) { p.Status.Phase = phase })
	require.NoError(t, err)
}

// TestKeepsPodOfLiveInstance: the pod stays, whatever the workflow remembers of the instance's deletion.
func TestKeepsPodOfLiveInstance(t *testing.T) {
	w := newWorld(t)
	vmi, pod, _ := w.running(t)
	in := contract.DeletePodInput{VMI: vmi, Pod: pod}
	out, err := w.DeleteLauncherPod(t.Context(), in)
	require.NoError(t, err)
	require.Contains(t, out.Refused, "not being deleted now")
	require.Equal(t, vmi.UID, out.VMI.UID)
	_, err = fakekube.Edit(w.fake, w.ns, "web", "", func(v *kubevirt.VirtualMachineInstance) {
		v.Status.Phase = kubevirt.Failed
	})
	require.NoError(t, err)
	out, err = w.DeleteLauncherPod(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, contract.DeletePodResult{}, out, "it has ended")
}

// TestForceDeletesOnlyFromNodeThatIsOff: the node's state at that moment decides: an earlier confirmation, taint or
// missing Node does not count.
func TestForceDeletesOnlyFromNodeThatIsOff(t *testing.T) {
	unknown := func(taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node1"}, Spec: corev1.NodeSpec{Taints: taints},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}},
		}
	}
	outOfService := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown",
		Effect: corev1.TaintEffectNoExecute}
	ready := unknown(outOfService)
	ready.Status.Conditions[0].Status = corev1.ConditionTrue
	for name, c := range map[string]struct {
		node    *corev1.Node
		by      contract.FenceBy
		refused string
	}{
		"a person, and it is ready":       {ready, contract.FencedByPerson, "is ready now"},
		"a person, and it is not":         {unknown(), contract.FencedByPerson, ""},
		"a person, and it is gone":        {nil, contract.FencedByPerson, ""},
		"the taint, and it is ready":      {ready, contract.FencedByTaint, "is ready now"},
		"the taint, and it is not":        {unknown(outOfService), contract.FencedByTaint, ""},
		"the taint, which was taken off":  {unknown(), contract.FencedByTaint, "not called out of service any more"},
		"the taint, and it is gone":       {nil, contract.FencedByTaint, ""},
		"its end, and it is gone":         {nil, contract.FencedByEnd, ""},
		"its end, and it is there again":  {unknown(), contract.FencedByEnd, "exists again"},
		"its end, and it is ready by now": {ready, contract.FencedByEnd, "is ready now"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			vmi, pod, seen := w.running(t)
			if c.node != nil {
				_, err := w.kubernetes.CoreV1().Nodes().Create(t.Context(), c.node, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			fence := contract.Fence{Node: "node1", By: c.by}
			removed, err := w.RemovePodFinalizer(t.Context(),
				contract.RemovePodFinalizerInput{Pod: pod, ResourceVersion: seen.ResourceVersion, Fence: fence})
			require.NoError(t, err)
			out, err := w.DeleteLauncherPod(t.Context(),
				contract.DeletePodInput{VMI: vmi, Pod: pod, Grace: new(int64), Fence: fence})
			require.NoError(t, err)
			if c.refused == "" {
				require.Empty(t, removed.Refused+out.Refused)
			} else {
				require.Contains(t, removed.Refused, c.refused)
				require.Contains(t, out.Refused, c.refused)
				require.Equal(t, pod.UID, out.Node.PodUID)
			}
			found, err := w.FindLauncherPod(t.Context(), contract.FindPodInput{VMI: vmi})
			require.NoError(t, err)
			require.Equal(t, c.refused != "", len(found.Pods()) == 1)
		})
	}
}

// TestKeepsFinalizerUntilPodEnds: it is removed in the version in which the end was seen, or after another
// look.
func TestKeepsFinalizerUntilPodEnds(t *testing.T) {
	w := newWorld(t)
	vmi, pod, seen := w.running(t)
	in := contract.RemovePodFinalizerInput{Pod: pod, ResourceVersion: "1"}
	out, err := w.RemovePodFinalizer(t.Context(), in)
	require.NoError(t, err)
	require.Contains(t, out.Refused, "has not ended")
	require.Equal(t, seen.ResourceVersion, out.Pod.ResourceVersion)

	patched, err := w.PatchVMI(t.Context(),
		contract.PatchVMIInput{VMI: vmi, ResourceVersion: w.there(t, "web").ResourceVersion, Finalizers: &[]string{}})
	require.NoError(t, err)
	require.Equal(t, "its pod has not ended", patched.Refused)
	require.Equal(t, pod.UID, patched.Pod.UID)
	require.NotEmpty(t, w.there(t, "web").Finalizers)

	w.podIs(t, pod.Name, corev1.PodSucceeded)
	out, err = w.RemovePodFinalizer(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, contract.RemovePodFinalizerResult{}, out)
	patched, err = w.PatchVMI(t.Context(),
		contract.PatchVMIInput{VMI: vmi, ResourceVersion: w.there(t, "web").ResourceVersion, Finalizers: &[]string{}})
	require.NoError(t, err)
	require.True(t, patched.Written)
}

// TestBootsInstanceOnce: one that has had a pod that ran gets no other, whatever is remembered.
func TestBootsInstanceOnce(t *testing.T) {
	for _, phase := range []kubevirt.VirtualMachineInstancePhase{kubevirt.Scheduled, kubevirt.Running,
		kubevirt.Succeeded, kubevirt.Failed} {
		w := newWorld(t)
		_, vmi := w.machine(t)
		_, err := fakekube.Edit(w.fake, w.ns, "web", "", func(v *kubevirt.VirtualMachineInstance) {
			v.Status.Phase = phase
		})
		require.NoError(t, err)
		w.later = 3 * time.Second // what is remembered of the instance's creation no longer counts
		out, err := w.CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
		require.NoError(t, err)
		require.Contains(t, out.Refused, "never booted again")
		require.Equal(t, string(phase), out.VMI.Phase)
		pods, err := w.kubernetes.CoreV1().Pods(w.ns).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, pods.Items)
	}
}
