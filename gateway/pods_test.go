package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/virtflow/virtflow/contract"
)

// fixedPods has read its pods and watches nothing.
func fixedPods(t testing.TB) *Pods {
	pods, err := NewPods(fake.NewClientset())
	require.NoError(t, err)
	for _, pod := range []*corev1.Pod{launcherPodObject("default", "here", podHere, "node1"),
		launcherPodObject("default", "there", podThere, "node2")} {
		require.NoError(t, pods.informer.GetIndexer().Add(pod))
	}
	pods.synced = func() bool { return true }
	return pods
}

// TestPodCountsWhileItExistsAndShortlyAfter: a pod counts from when it is placed until some time after it has gone, on
// the node where it was.
func TestPodCountsWhileItExistsAndShortlyAfter(t *testing.T) {
	r := newRig(t)
	one, two := r.as(r.node("node1")), r.as(r.node("node2"))
	const uid = "11111111-0b5d-4c6e-8f70-112233445566"
	s := domainSignal("vmi/shop/web", uid)
	send := func() codes.Code {
		_, err := one.SignalWorkflowExecution(t.Context(), s)
		return status.Code(err)
	}
	require.Equal(t, codes.PermissionDenied, send())
	pods := r.kube.CoreV1().Pods("shop")
	pod, err := pods.Create(t.Context(), launcherPodObject("shop", "web", uid, ""), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { _, known := r.pods.find(uid); return known }, deadline, tick)
	require.Equal(t, codes.PermissionDenied, send(), "it is on no node yet")
	pod.Spec.NodeName = "node1"
	_, err = pods.Update(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return send() == codes.OK }, deadline, tick)
	require.NoError(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return len(r.pods.informer.GetStore().List()) == 2 }, deadline, tick)
	require.Equal(t, codes.OK, send(), "its last observation is accepted after its deletion")
	_, err = two.SignalWorkflowExecution(t.Context(), s)
	require.Equal(t, codes.PermissionDenied, status.Code(err))
}

// TestIgnoresPodsThatAreNoLaunchers: a pod without the launcher's label is ignored: the label makes a launcher, and
// only virtflow may set it.
func TestIgnoresPodsThatAreNoLaunchers(t *testing.T) {
	pod := launcherPodObject("tenant", "here", "u", "node1")
	pod.Labels = map[string]string{}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "secret"}}}}
	require.Empty(t, fixedPods(t).launcherPodOf(pod).workflow)
	kept, err := stripPod(pod)
	require.NoError(t, err)
	require.Empty(t, kept.(*corev1.Pod).Spec.Containers, "nothing else of a pod is kept")
}

// TestKubeletCannotReassignItsPod: with a pod's status it may change labels and annotations, and then the pod
// belongs to no VMI.
func TestKubeletCannotReassignItsPod(t *testing.T) {
	pods := fixedPods(t)
	made := func(change func(*corev1.Pod)) string {
		pod := launcherPodObject("default", "here", podHere, "node1")
		change(pod)
		kept, err := stripPod(pod)
		require.NoError(t, err)
		return pods.launcherPodOf(kept.(*corev1.Pod)).workflow
	}
	require.Equal(t, "vmi/default/here", made(func(*corev1.Pod) {}))
	for name, change := range map[string]func(*corev1.Pod){
		"another name":   func(p *corev1.Pod) { p.Annotations[contract.AnnotationDomain] = "there" },
		"another UID":    func(p *corev1.Pod) { p.Labels[contract.LabelCreatedBy] = "uid-of-there" },
		"no owner":       func(p *corev1.Pod) { p.OwnerReferences = nil },
		"no controller":  func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil },
		"another's kind": func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" },
		"both of another's": func(p *corev1.Pod) {
			p.Annotations[contract.AnnotationDomain], p.Labels[contract.LabelCreatedBy] = "there", "uid-of-there"
		},
	} {
		require.Empty(t, made(change), name)
	}
}

// TestOrphanBelongsToItsFormerVMI: an orphaned pod belongs to its former VMI, which waits for its end, if it was
// observed before it was orphaned.
func TestOrphanBelongsToItsFormerVMI(t *testing.T) {
	r := newRig(t)
	one := r.as(r.node("node1"))
	pods := r.kube.CoreV1().Pods("default")
	pod, err := pods.Get(t.Context(), "virt-launcher-here", metav1.GetOptions{})
	require.NoError(t, err)
	pod.OwnerReferences = nil
	_, err = pods.Update(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { _, known := r.pods.orphans.Get(string(podHere)); return known }, deadline, tick)
	_, err = one.SignalWorkflowExecution(t.Context(), domainSignal("vmi/default/here", podHere))
	require.NoError(t, err)
	pod.Annotations[contract.AnnotationDomain] = "there"
	_, err = pods.Update(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := one.SignalWorkflowExecution(t.Context(), domainSignal("vmi/default/here", podHere))
		return status.Code(err) == codes.PermissionDenied
	}, deadline, tick)
	_, err = one.SignalWorkflowExecution(t.Context(), domainSignal("vmi/default/there", podHere))
	require.Equal(t, codes.PermissionDenied, status.Code(err))
}
