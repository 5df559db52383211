package diff

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/observe"
)

// instanceOnNode returns a VMI with its pod on node1.
func instanceOnNode(t *testing.T, e *Differ) (*kubevirt.VirtualMachineInstance, *corev1.Pod, *corev1.Node) {
	t.Helper()
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "i"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "p",
			OwnerReferences: controlledBy(vmi, "VirtualMachineInstance")},
		Spec:   corev1.PodSpec{NodeName: "node1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: "n", ResourceVersion: "1"}}
	set(node, corev1.ConditionTrue)
	require.NoError(t, e.informers.Nodes.GetStore().Add(node))
	require.NoError(t, e.informers.Pods.GetStore().Add(pod))
	return vmi, pod, node
}

func set(node *corev1.Node, ready corev1.ConditionStatus) {
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(time.Unix(1000, 0))}}
}

// stateSent returns the newest state of its node that waits for the VMI, or nil.
func stateSent(e *Differ) *contract.NodeState {
	var last *contract.NodeState
	for _, d := range outbox(e).pending["vmi/a/web"] {
		if s, ok := d.Payload.(contract.NodeState); ok {
			last = &s
			if d.Start != nil || d.Signal != contract.SignalObserveNode {
				return nil
			}
		}
	}
	delete(outbox(e).pending, "vmi/a/web")
	return last
}

func TestSendsNodeStateToVMI(t *testing.T) {
	e := newTestDiffer(t)
	_, pod, node := instanceOnNode(t, e)
	e.sendPod("a/p", change)
	require.Nil(t, stateSent(e), "a node is ready unless something else is said")
	update := func(f func(*corev1.Node)) {
		node = node.DeepCopy()
		f(node)
		require.NoError(t, e.informers.Nodes.GetStore().Update(node))
		e.entities.node.sendChanged("node1", change)
	}
	update(func(n *corev1.Node) { n.Spec.Unschedulable = true })
	require.Nil(t, stateSent(e), "cordoning is no business of what runs there")
	update(func(n *corev1.Node) { set(n, corev1.ConditionUnknown) })
	s := stateSent(e)
	require.NotNil(t, s)
	require.False(t, s.Ready)
	require.Equal(t, "p", s.PodUID)
	require.Equal(t, time.Unix(1000, 0).UTC(), s.Since)
	e.sendPod("a/p", change)
	update(func(n *corev1.Node) { n.ResourceVersion = "5" })
	require.Nil(t, stateSent(e), "it was sent")
	update(func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoSchedule}}
	})
	require.Nil(t, stateSent(e), "with another effect it says nothing of what runs there")
	update(func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints,
			corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
	})
	require.True(t, stateSent(e).OutOfService)
	e.entities.node.sendGone(node, change)
	require.True(t, stateSent(e).Gone)
	e.entities.node.sendGone(node, change)
	require.Nil(t, stateSent(e))
	// The machine comes back and creates its Node again.
	update(func(n *corev1.Node) { n.UID, n.Spec.Taints = "n2", nil; set(n, corev1.ConditionTrue) })
	s = stateSent(e)
	require.True(t, s.Ready)
	require.Equal(t, "n2", s.UID)
	e.sendPodGone(pod, change)
	stateSent(e)
	update(func(n *corev1.Node) { set(n, corev1.ConditionFalse) })
	require.NotNil(t, stateSent(e), "the informer still has the pod: it is sent again")
}

// TestFirstObservationOfNode: a node's first observation is sent to a VMI on an unready node, and to one whose entity
// may have other state.
func TestFirstObservationOfNode(t *testing.T) {
	e := newTestDiffer(t)
	instanceOnNode(t, e)
	e.sendPod("a/p", resync)
	require.True(t, stateSent(e).Ready, "a new leader does not know what was sent before it")

	e = newTestDiffer(t)
	_, _, node := instanceOnNode(t, e)
	node = node.DeepCopy()
	set(node, corev1.ConditionFalse)
	require.NoError(t, e.informers.Nodes.GetStore().Update(node))
	e.sendPod("a/p", change)
	require.False(t, stateSent(e).Ready)
}

// TestSendsEndOfNodeMissingFromInformer: the end is sent once the API server has confirmed it, because the informer may
// lag.
func TestSendsEndOfNodeMissingFromInformer(t *testing.T) {
	e := newTestDiffer(t)
	_, _, node := instanceOnNode(t, e)
	e.sendNodeMissing("node1")
	require.Nil(t, stateSent(e), "it is there by now")
	require.NoError(t, e.informers.Nodes.GetStore().Delete(node))
	e.sendPod("a/p", change)
	require.Nil(t, stateSent(e))
	e.sendNodeMissing("node1")
	require.True(t, stateSent(e).Gone)
}

// TestRecreatedNode: an observation of its former object, which may come late and twice, concerns no pod that was made
// since, and the end of the new object is sent as well.
func TestRecreatedNode(t *testing.T) {
	e := newTestDiffer(t)
	_, _, node := instanceOnNode(t, e)
	made := metav1.NewTime(time.Unix(2000, 0))
	former, recreated := node.DeepCopy(), node.DeepCopy()
	recreated.UID, recreated.CreationTimestamp = "n2", made
	require.NoError(t, e.informers.Nodes.GetStore().Update(recreated))
	e.sendPod("a/p", change)
	e.entities.node.sendGone(former, resync)
	require.Equal(t, "n", stateSent(e).UID, "the pod was there before")
	e.entities.node.sendGone(former, resync)
	require.Nil(t, stateSent(e), "it was sent")
	require.NoError(t, e.informers.Nodes.GetStore().Delete(recreated))
	e.entities.node.sendGone(recreated, change)
	require.Equal(t, "n2", stateSent(e).UID)

	e = newTestDiffer(t)
	_, pod, _ := instanceOnNode(t, e)
	pod = pod.DeepCopy()
	pod.CreationTimestamp = metav1.NewTime(made.Add(time.Second))
	require.NoError(t, e.informers.Pods.GetStore().Update(stripped(t, pod)))
	require.NoError(t, e.informers.Nodes.GetStore().Update(stripped(t, recreated)))
	e.sendPod("a/p", change)
	e.entities.node.sendGone(former, resync)
	require.Nil(t, stateSent(e), "it has never been there")
}

func TestTransformKeepsObservedFields(t *testing.T) {
	grace, left := int64(90), int64(5)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "p", DeletionGracePeriodSeconds: &left},
		Spec: corev1.PodSpec{NodeName: "node1", TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: observe.ComputeContainer, Image: "x"}}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed,
			Conditions: []corev1.PodCondition{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"}}},
	}
	stripped, err := watch.Strip(pod.DeepCopy())
	require.NoError(t, err)
	require.Equal(t, observe.Pod(pod), observe.Pod(stripped.(*corev1.Pod)))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: "n"},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "x"}, {Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute},
			{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoSchedule},
		}}}
	set(node, corev1.ConditionTrue)
	stripped, err = watch.Strip(node.DeepCopy())
	require.NoError(t, err)
	kept := stripped.(*corev1.Node)
	require.Equal(t, observe.NodeState(node, "p"), observe.NodeState(kept, "p"))
	require.Equal(t, observe.Node(node, true, "x"), observe.Node(kept, true, "x"))
}

// TestRepeatsNodeOfNewLeader: its informer may lag behind the version that the entity knows from the leader before.
func TestRepeatsNodeOfNewLeader(t *testing.T) {
	e := newTestDiffer(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: "n", ResourceVersion: "19"},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a.b/empty", Effect: corev1.TaintEffectNoSchedule}}}}
	sent := func(version string) []*delivery.Delivery {
		node = node.DeepCopy()
		node.ResourceVersion = version
		require.NoError(t, e.informers.Nodes.GetStore().Add(node))
		e.entities.node.sendChanged("node1", change)
		defer delete(outbox(e).pending, "node/node1")
		return outbox(e).pending["node/node1"]
	}
	require.Len(t, sent("19"), 1)
	require.Empty(t, sent("19"))
	again := sent("20")
	require.Len(t, again, 1, "the entity may have ignored the drain taint of version 19")
	require.Equal(t, "20", again[0].Payload.(contract.NodeObservation).ResourceVersion)
	require.Equal(t, delivery.Resync, again[0].Class)
	require.Empty(t, sent("21"), "once")
	e.entities.node.redeliver(node)
	delete(outbox(e).pending, "node/node1")
	node.Spec.Taints = nil
	require.Empty(t, sent("22"), "without a taint nothing drains it")
}
