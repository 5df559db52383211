package vmi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/cluster"
	"github.com/virtflow/virtflow/workflows/vmi"
)

// node makes the VMI's node ready since now, except for what change sets.
func (w *world) node(change func(*contract.NodeState)) {
	s := contract.NodeState{Ready: true, Since: w.env.Now().Truncate(time.Second)}
	change(&s)
	w.SetNode(s)
}

func unready(o *contract.NodeState) { o.Ready = false }

// bootAndLose boots the guest, and has the node stop to report ten seconds later.
func (w *world) bootAndLose() {
	w.boot()
	w.at(10*time.Second, func() { w.node(unready) })
}

func (w *world) state(t *testing.T) vmi.State {
	t.Helper()
	v, err := w.env.QueryWorkflow(contract.QueryState)
	require.NoError(t, err)
	var s vmi.State
	require.NoError(t, v.Get(&s))
	return s
}

// endsAsFenced waits until the VMI has failed with its node and its pod is gone, then deletes it.
func (w *world) endsAsFenced(t *testing.T, at time.Duration, why string) {
	w.at(at, func() {
		require.Equal(t, "Failed", w.VMIStatus.Phase)
		require.Equal(t, contract.ReasonNodeUnresponsive, w.VMIStatus.Reason)
		require.Nil(t, w.Pod(), "the pod of a fenced node is removed: no kubelet there does it")
		require.Empty(t, w.condition(contract.ConditionNodeLost).Type)
		require.Contains(t, w.state(t).Explanation, why)
		w.DeleteVMI()
	})
	w.run(t)
	require.Equal(t, 1, w.DomainsStarted)
}

func TestLostNodeIsShownAndGuestNotRestarted(t *testing.T) {
	w := newWorld(t)
	w.bootAndLose()
	var late contract.NodeState
	w.at(25*time.Second, func() {
		require.Empty(t, w.condition(contract.ConditionNodeLost).Type, "it may be back in a moment")
	})
	w.at(time.Hour, func() {
		c := w.condition(contract.ConditionNodeLost)
		require.Equal(t, "True", c.Status)
		require.Equal(t, contract.ReasonNodeUnresponsive, c.Reason)
		require.Contains(t, c.Message, "out-of-service")
		require.Contains(t, c.Message, "fence-confirmed")
		require.Equal(t, "Running", w.VMIStatus.Phase, "nothing proves that its guest is off")
		require.NotNil(t, w.Pod())
		require.NotEmpty(t, w.Pod().Finalizers)
		warned := 0
		for _, e := range w.Events {
			if e.Reason == contract.ReasonNodeUnresponsive {
				require.Equal(t, "Warning", e.Type)
				warned++
			}
		}
		require.Equal(t, 1, warned)
		late = w.Node()
		w.node(func(*contract.NodeState) {})
	})
	// The node comes back: the same guest continues.
	w.at(time.Hour+time.Second, func() {
		require.Empty(t, w.condition(contract.ConditionNodeLost).Type)
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.Nil(t, w.Pod().DeletionTimestamp, "nothing is killed")
		w.env.SignalWorkflow(contract.SignalObserveNode, late)
	})
	w.at(2*time.Hour, func() {
		require.Empty(t, w.condition(contract.ConditionNodeLost).Type, "an old observation turns nothing back")
		w.DeleteVMI()
	})
	w.at(2*time.Hour+time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
	require.Equal(t, 1, w.DomainsStarted)
	require.Equal(t, "Succeeded", w.VMIStatus.Phase)
}

// TestIgnoresOutOfServiceTaintOfEarlierOutage: the taint was there while the node was ready.
func TestIgnoresOutOfServiceTaintOfEarlierOutage(t *testing.T) {
	w := newWorld(t)
	w.boot()
	w.at(10*time.Second, func() { w.node(func(o *contract.NodeState) { o.OutOfService = true }) })
	w.at(time.Minute, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase, "a node that answers is not out of service")
		w.node(func(o *contract.NodeState) { o.OutOfService, o.Ready = true, false })
	})
	w.at(10*time.Minute, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.Contains(t, w.condition(contract.ConditionNodeLost).Message, "remove the taint and set it again")
		w.node(func(o *contract.NodeState) { o.Ready, o.Since = false, o.Since.Add(-9*time.Minute) })
	})
	w.at(11*time.Minute, func() {
		w.node(func(o *contract.NodeState) {
			o.OutOfService, o.Ready, o.Since = true, false, o.Since.Add(-10*time.Minute)
		})
	})
	w.endsAsFenced(t, 11*time.Minute+time.Second, "out of service")
}

// TestOutOfServiceCountsOnceNodeIsLost: a restarted kubelet is not ready for a moment.
func TestOutOfServiceCountsOnceNodeIsLost(t *testing.T) {
	w := newWorld(t)
	w.boot()
	w.at(10*time.Second, func() { w.node(func(o *contract.NodeState) { o.OutOfService, o.Ready = true, false }) })
	w.at(35*time.Second, func() { require.Equal(t, "Running", w.VMIStatus.Phase) })
	w.endsAsFenced(t, 45*time.Second, "out of service")
}

func TestLostNodeIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.bootAndLose()
	w.at(time.Minute, func() { w.node(func(o *contract.NodeState) { o.Gone, o.Ready = true, false }) })
	w.endsAsFenced(t, time.Minute+time.Second, "no longer exists")
}

// TestReadyNodeIsDeleted: the kubelet may still run. It has a minute to end the pod and report that. From the pod's
// deletion, which may be the first that the kubelet observes, it has half a minute more.
func TestReadyNodeIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.boot()
	w.at(10*time.Second, func() {
		w.node(func(o *contract.NodeState) { o.Gone, o.Ready, o.Since = true, false, time.Time{} })
	})
	w.at(time.Minute, func() { require.Equal(t, "Running", w.VMIStatus.Phase) })
	w.at(80*time.Second, func() {
		require.NotNil(t, w.Pod().DeletionTimestamp)
		require.Equal(t, "Running", w.VMIStatus.Phase)
	})
	w.endsAsFenced(t, 110*time.Second, "no longer exists")
}

func TestFenceConfirmed(t *testing.T) {
	w := newWorld(t)
	w.boot()
	ask := contract.ControlRequest{Actor: "alice", Reason: "pulled the plug"}
	w.at(10*time.Second, func() { w.env.SignalWorkflow(contract.ControlFenceConfirmed, ask) })
	w.at(20*time.Second, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.Contains(t, w.condition(contract.ConditionControlRefused).Message, "is ready",
			"a node that answers cannot be confirmed to be off")
		w.node(unready)
	})
	w.at(time.Minute, func() { w.env.SignalWorkflow(contract.ControlFenceConfirmed, ask) })
	w.endsAsFenced(t, time.Minute+time.Second, "alice (as claimed) confirmed")
}

// TestForcedPodDeletionIsNoProof: kubectl delete pod --force leaves the finalizer, and a pod phase that the pod garbage
// collector wrote does not count.
func TestForcedPodDeletionIsNoProof(t *testing.T) {
	w := newWorld(t)
	w.bootAndLose()
	w.at(time.Minute, w.ForceDeletePod)
	w.at(2*time.Minute, func() {
		w.EditPod(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
					Reason: "DeletionByPodGC"})
		})
	})
	w.at(time.Hour, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.NotEmpty(t, w.Pod().Finalizers)
		require.Equal(t, "True", w.condition(contract.ConditionNodeLost).Status)
		require.Equal(t, "FailedDelete", w.condition("Synchronized").Reason, "what is waited for must show")
		// The node comes back: the kubelet ends the deleted pod and reports that.
		w.node(func(*contract.NodeState) {})
		w.EndPod(contract.ReasonShutdown, true, 0)
	})
	w.at(time.Hour+time.Minute, func() {
		require.Equal(t, "Succeeded", w.VMIStatus.Phase)
		require.Empty(t, w.condition("Synchronized").Type)
		w.DeleteVMI()
	})
	w.run(t)
	require.Equal(t, 1, w.DomainsStarted)
}

// The deletion of an instance on a lost node waits without limit, and shows why.
func TestDeletedOnLostNode(t *testing.T) {
	w := newWorld(t)
	w.bootAndLose()
	w.at(time.Minute, w.DeleteVMI)
	w.at(time.Hour, func() {
		require.NotNil(t, w.VMI())
		require.Equal(t, "True", w.condition(contract.ConditionNodeLost).Status)
		require.Equal(t, "FailedDelete", w.condition("Synchronized").Reason)
		w.node(func(o *contract.NodeState) {
			o.OutOfService, o.Ready, o.Since = true, false, o.Since.Add(-time.Minute)
		})
	})
	w.at(time.Hour+time.Second, func() { require.Nil(t, w.VMI()) })
	w.run(t)
	require.Equal(t, contract.ReasonNodeUnresponsive, w.VMIStatus.Reason)
}

// TestSlowDeletionIsShown: a slow deletion writes the status.
func TestSlowDeletionIsShown(t *testing.T) {
	w := newWorld(t)
	w.boot()
	w.at(10*time.Second, w.DeleteVMI)
	w.at(21*time.Second, func() { require.Equal(t, "PodTerminating", w.condition("Ready").Reason) })
	w.at(10*time.Minute, func() {
		require.Equal(t, "FailedDelete", w.condition("Synchronized").Reason)
		w.EndPod(contract.ReasonDestroyed, true, 0)
	})
	w.run(t)
	require.Equal(t, "Failed", w.VMIStatus.Phase)
}

// TestAdoptsInstanceOnLostNode: Temporal's database and the node are lost. The status keeps what only the node worker
// knows.
func TestAdoptsInstanceOnLostNode(t *testing.T) {
	w := newWorld(t)
	w.Fail = func(a string) error {
		if a == contract.ActivityStartDomain {
			return temporal.NewApplicationError("no launcher answers", contract.ErrorNoLauncher)
		}
		return nil
	}
	w.at(0, func() {
		w.Unseen(func() {
			w.runs(func(vmi *kubevirt.VirtualMachineInstance) {
				ran(vmi)
				vmi.Status.Conditions = []kubevirt.VirtualMachineInstanceCondition{
					{Type: "AgentConnected", Status: "True"}}
			})
		})
		w.SendAll()
		w.node(unready)
	})
	w.at(10*time.Minute, func() {
		require.NotNil(t, w.VMIStatus, "it must show")
		require.Equal(t, "True", w.condition(contract.ConditionNodeLost).Status)
		require.Equal(t, "Synchronizing with the Domain failed.", w.condition("Synchronized").Reason)
		require.True(t, w.VMIStatus.DomainUnknown)
		require.Equal(t, "True", w.condition("AgentConnected").Status)
		w.node(func(o *contract.NodeState) {
			o.OutOfService, o.Ready, o.Since = true, false, o.Since.Add(-time.Minute)
		})
	})
	w.at(10*time.Minute+time.Second, func() {
		require.Equal(t, "Failed", w.VMIStatus.Phase)
		w.DeleteVMI()
	})
	w.run(t)
	require.Zero(t, w.DomainsStarted)
}

// TestPublishesFenceAfterForceDeletion: before that no activity has checked that the node is off, and a node that comes
// back keeps its guest.
func TestPublishesFenceAfterForceDeletion(t *testing.T) {
	w := newWorld(t)
	w.bootAndLose()
	away := true
	w.Fail = func(a string) error {
		if away && a == contract.ActivityDeletePod {
			return cluster.Unavailable()
		}
		return nil
	}
	w.at(time.Minute, func() {
		w.env.SignalWorkflow(contract.ControlFenceConfirmed, contract.ControlRequest{Actor: "alice"})
	})
	w.at(5*time.Minute, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase, "its guest may run: what is published cannot be taken back")
		require.Equal(t, "FailedDelete", w.condition("Synchronized").Reason, "what is waited for must show")
		require.Equal(t, "True", w.condition(contract.ConditionNodeLost).Status)
		for _, e := range w.Events {
			require.NotEqual(t, "Stopped", e.Reason)
			require.False(t, e.Reason == contract.ReasonNodeUnresponsive && e.Type == "Normal", e.Message)
		}
		away = false
	})
	w.endsAsFenced(t, 10*time.Minute, "alice (as claimed) confirmed")
}

// TestKeepsGuestWhenNodeReturnsBeforeForceDeletion: the guest continues.
func TestKeepsGuestWhenNodeReturnsBeforeForceDeletion(t *testing.T) {
	w := newWorld(t)
	w.bootAndLose()
	failures := 0
	w.Fail = func(a string) error {
		if a == contract.ActivityDeletePod && failures < 30 {
			failures++
			return cluster.Unavailable()
		}
		return nil
	}
	w.at(59*time.Second, func() { w.Unseen(func() { w.node(func(*contract.NodeState) {}) }) })
	w.at(time.Minute, func() {
		w.env.SignalWorkflow(contract.ControlFenceConfirmed, contract.ControlRequest{Actor: "alice"})
	})
	w.at(time.Hour, func() {
		require.Equal(t, 30, failures)
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.Nil(t, w.Pod().DeletionTimestamp)
		require.Nil(t, w.state(t).Fenced)
		w.DeleteVMI()
	})
	w.at(time.Hour+time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
	require.Equal(t, "Succeeded", w.VMIStatus.Phase)
}
