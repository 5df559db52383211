package vmi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/testsuite/fakes"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/vmi"
)

const podUID = "pod-of-vmi-1"

// node tells how the VMI's node is.
func (w *world) node(version string, change func(*contract.NodeState)) {
	o := contract.NodeState{PodUID: podUID, Name: fakes.NodeName, UID: "n", ResourceVersion: version, Ready: true, Since: w.env.Now().Truncate(time.Second)}
	change(&o)
	w.env.SignalWorkflow(contract.SignalObserveNode, o)
}

func unready(o *contract.NodeState) { o.Ready = false }

// bootAndLose boots, and has the node go silent ten seconds later.
func (w *world) bootAndLose() {
	w.boot()
	w.at(10*time.Second, func() { w.node("1", unready) })
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
		require.Nil(t, w.Pod, "the pod of a fenced node is removed: no kubelet there does it")
		require.Empty(t, w.condition(contract.ConditionNodeLost).Type)
		require.Contains(t, w.state(t).Explanation, why)
		w.DeleteVMIByUser()
	})
	w.run(t)
	require.Equal(t, 1, w.DomainsStarted)
}

func TestLostNodeShowsAndNothingIsRestarted(t *testing.T) {
	w := newWorld(t)
	w.bootAndLose()
	w.at(25*time.Second, func() { require.Empty(t, w.condition(contract.ConditionNodeLost).Type, "it may be back in a moment") })
	w.at(time.Hour, func() {
		c := w.condition(contract.ConditionNodeLost)
		require.Equal(t, "True", c.Status)
		require.Equal(t, contract.ReasonNodeUnresponsive, c.Reason)
		require.Contains(t, c.Message, "out-of-service")
		require.Contains(t, c.Message, "fence-confirmed")
		require.Equal(t, "Running", w.VMIStatus.Phase, "nothing says that its guest is off")
		require.NotNil(t, w.Pod)
		require.NotEmpty(t, w.Pod.Finalizers)
		warned := 0
		for _, e := range w.Events {
			if e.Reason == contract.ReasonNodeUnresponsive {
				require.Equal(t, "Warning", e.Type)
				warned++
			}
		}
		require.Equal(t, 1, warned)
		w.node("2", func(*contract.NodeState) {})
	})
	// Back: the same guest goes on.
	w.at(time.Hour+time.Second, func() {
		require.Empty(t, w.condition(contract.ConditionNodeLost).Type)
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.Nil(t, w.Pod.DeletionTimestamp, "nothing is killed")
		w.node("1", unready) // late
	})
	w.at(2*time.Hour, func() {
		require.Empty(t, w.condition(contract.ConditionNodeLost).Type, "an old observation turns nothing back")
		w.DeleteVMIByUser()
	})
	w.at(2*time.Hour+time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
	require.Equal(t, 1, w.DomainsStarted)
	require.Equal(t, "Succeeded", w.VMIStatus.Phase)
}

// TestOutOfServiceFailsTheVMIOnlyInTheOutageThatIsMeant: a taint that was there while the node was ready was forgotten after an earlier one.
func TestOutOfServiceFailsTheVMIOnlyInTheOutageThatIsMeant(t *testing.T) {
	w := newWorld(t)
	w.boot()
	w.at(10*time.Second, func() { w.node("1", func(o *contract.NodeState) { o.OutOfService = true }) })
	w.at(time.Minute, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase, "a node that answers is not out of service")
		w.node("2", func(o *contract.NodeState) { o.OutOfService, o.Ready = true, false })
	})
	w.at(10*time.Minute, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.Contains(t, w.condition(contract.ConditionNodeLost).Message, "take it off, and set it again")
		w.node("3", func(o *contract.NodeState) { o.Ready, o.Since = false, o.Since.Add(-9*time.Minute) })
	})
	w.at(11*time.Minute, func() {
		w.node("4", func(o *contract.NodeState) {
			o.OutOfService, o.Ready, o.Since = true, false, o.Since.Add(-10*time.Minute)
		})
	})
	w.endsAsFenced(t, 11*time.Minute+time.Second, "out of service")
}

// TestOutOfServiceCountsOnceTheNodeIsLost: a kubelet that is started again is not ready for a moment.
func TestOutOfServiceCountsOnceTheNodeIsLost(t *testing.T) {
	w := newWorld(t)
	w.boot()
	w.at(10*time.Second, func() { w.node("1", func(o *contract.NodeState) { o.OutOfService, o.Ready = true, false }) })
	w.at(35*time.Second, func() { require.Equal(t, "Running", w.VMIStatus.Phase) })
	w.endsAsFenced(t, 45*time.Second, "out of service")
}

func TestALostNodeThatIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.bootAndLose()
	w.at(time.Minute, func() { w.node("", func(o *contract.NodeState) { o.Gone, o.Ready = true, false }) })
	w.endsAsFenced(t, time.Minute+time.Second, "exists no more")
}

// TestANodeThatIsDeletedWhileItIsWell: its kubelet may be there yet, and gets a minute to end the pod and say so.
func TestANodeThatIsDeletedWhileItIsWell(t *testing.T) {
	w := newWorld(t)
	w.boot()
	w.at(10*time.Second, func() {
		w.node("", func(o *contract.NodeState) { o.Gone, o.Ready, o.Since = true, false, time.Time{} })
	})
	w.at(time.Minute, func() { require.Equal(t, "Running", w.VMIStatus.Phase) })
	w.endsAsFenced(t, 80*time.Second, "exists no more")
}

func TestAPersonConfirmsThatTheNodeIsOff(t *testing.T) {
	w := newWorld(t)
	w.boot()
	ask := contract.ControlRequest{Actor: "alice", Reason: "pulled the plug"}
	w.at(10*time.Second, func() { w.env.SignalWorkflow(contract.ControlFenceConfirmed, ask) })
	w.at(20*time.Second, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.Contains(t, w.condition(contract.ConditionControlRefused).Message, "is ready", "nobody confirms that a node is off which answers")
		w.node("1", unready)
	})
	w.at(time.Minute, func() { w.env.SignalWorkflow(contract.ControlFenceConfirmed, ask) })
	w.endsAsFenced(t, time.Minute+time.Second, "alice (as claimed) confirmed")
}

// TestForcedDeletionOfThePodIsNoProof: kubectl delete pod --force leaves our finalizer, and the pod garbage collector's word counts no more.
func TestForcedDeletionOfThePodIsNoProof(t *testing.T) {
	w := newWorld(t)
	w.bootAndLose()
	w.at(time.Minute, func() {
		none, now := int64(0), w.env.Now()
		p := *w.Pod
		p.DeletionTimestamp, p.DeletionGraceSeconds, p.ResourceVersion = &now, &none, "900"
		w.Pod = &p
		w.env.SignalWorkflow(contract.SignalObservePod, p)
	})
	w.at(2*time.Minute, func() {
		p := *w.Pod
		p.Phase, p.Unproven, p.ResourceVersion = "Failed", true, "901"
		w.Pod = &p
		w.env.SignalWorkflow(contract.SignalObservePod, p)
	})
	w.at(time.Hour, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.NotEmpty(t, w.Pod.Finalizers)
		require.Equal(t, "True", w.condition(contract.ConditionNodeLost).Status)
		require.Equal(t, "FailedDelete", w.condition("Synchronized").Reason, "what is waited for must show")
		// Back: the kubelet ends the pod, as it was told to, and says so.
		w.node("2", func(*contract.NodeState) {})
		code := int32(0)
		p := *w.Pod
		p.Phase, p.Unproven, p.ComputeRunning, p.ExitCode, p.ResourceVersion = "Succeeded", false, false, &code, "902"
		p.TerminationMessage = `{"reason":"Shutdown","ran":true}`
		w.Pod = &p
		w.env.SignalWorkflow(contract.SignalObservePod, p)
	})
	w.at(time.Hour+time.Minute, func() {
		require.Equal(t, "Succeeded", w.VMIStatus.Phase)
		require.Empty(t, w.condition("Synchronized").Type)
		w.DeleteVMIByUser()
	})
	w.run(t)
	require.Equal(t, 1, w.DomainsStarted)
}

// TestDeletedOnALostNode waits for as long as it takes, and shows why.
func TestDeletedOnALostNode(t *testing.T) {
	w := newWorld(t)
	w.bootAndLose()
	w.at(time.Minute, w.DeleteVMIByUser)
	w.at(time.Hour, func() {
		require.NotNil(t, w.VMI)
		require.Equal(t, "True", w.condition(contract.ConditionNodeLost).Status)
		require.Equal(t, "FailedDelete", w.condition("Synchronized").Reason)
		w.node("2", func(o *contract.NodeState) { o.OutOfService, o.Ready, o.Since = true, false, o.Since.Add(-time.Minute) })
	})
	w.at(time.Hour+time.Second, func() { require.Nil(t, w.VMI) })
	w.run(t)
	require.Equal(t, contract.ReasonNodeUnresponsive, w.VMIStatus.Reason)
}

// TestAQuickDeletionWritesOnce: between the deletion and the patch that releases the VMI nothing is written.
func TestAQuickDeletionWritesOnce(t *testing.T) {
	w := newWorld(t)
	w.boot()
	calls := 0
	w.at(10*time.Second, func() {
		calls = len(w.Calls)
		w.DeleteVMIByUser()
	})
	w.at(12*time.Second, func() {
		d := *w.Domain
		d.Sequence++
		d.State = contract.DomainShutdown
		w.Domain = &d
		w.env.SignalWorkflow(contract.SignalObserveDomain, d)
	})
	w.at(15*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
	var own []string
	for _, c := range w.Calls[calls:] {
		switch c {
		case contract.ActivityDeletePod, contract.ActivityRemovePodFinalizer, contract.ActivityPatchVMI, contract.ActivityFindPod:
			own = append(own, c)
		}
	}
	require.Equal(t, []string{contract.ActivityDeletePod, contract.ActivityRemovePodFinalizer, contract.ActivityPatchVMI}, own)
}

// TestASlowDeletionShows: what takes long must show.
func TestASlowDeletionShows(t *testing.T) {
	w := newWorld(t)
	w.boot()
	w.at(10*time.Second, w.DeleteVMIByUser)
	w.at(21*time.Second, func() { require.Equal(t, "PodTerminating", w.condition("Ready").Reason) })
	w.at(10*time.Minute, func() {
		require.Equal(t, "FailedDelete", w.condition("Synchronized").Reason)
		w.EndPod(contract.ReasonDestroyed, true, 0)
	})
	w.run(t)
	require.Equal(t, "Failed", w.VMIStatus.Phase)
}

// TestAdoptedOnADeadNode: Temporal's database and the node are lost. What only the node's worker knows stays as it was written.
func TestAdoptedOnADeadNode(t *testing.T) {
	w := newWorld(t)
	w.Fail = func(a string) error {
		if a == contract.ActivityStartDomain {
			return temporal.NewApplicationError("no launcher answers", contract.ErrorNoLauncher)
		}
		return nil
	}
	w.at(0, func() {
		w.VMI = &contract.VMIObservation{
			UID: "vmi-1", Phase: "Running", EverRan: true, ResourceVersion: "7", Finalizers: []string{contract.FinalizerVMI},
			PhaseTimes: []contract.PhaseTime{{Phase: "Running", Time: time.Unix(1000, 0)}},
			Conditions: []contract.Condition{{Type: "AgentConnected", Status: "True"}},
		}
		w.Pod = &contract.PodObservation{
			UID: podUID, Name: "virt-launcher-web", VMIUID: "vmi-1", Phase: "Running", NodeName: fakes.NodeName, ComputeRunning: true, ResourceVersion: "8",
			Finalizers: []string{contract.FinalizerPod}, Unpaused: "True",
		}
		w.env.SignalWorkflow(contract.SignalObserveVMI, *w.VMI)
		w.env.SignalWorkflow(contract.SignalObservePod, *w.Pod)
		w.node("1", unready)
	})
	w.at(10*time.Minute, func() {
		require.NotNil(t, w.VMIStatus, "it must show")
		require.Equal(t, "True", w.condition(contract.ConditionNodeLost).Status)
		require.Equal(t, "Synchronizing with the Domain failed.", w.condition("Synchronized").Reason)
		require.True(t, w.VMIStatus.DomainUnknown)
		require.Equal(t, "True", w.condition("AgentConnected").Status)
		w.node("2", func(o *contract.NodeState) { o.OutOfService, o.Ready, o.Since = true, false, o.Since.Add(-time.Minute) })
	})
	w.at(10*time.Minute+time.Second, func() {
		require.Equal(t, "Failed", w.VMIStatus.Phase)
		w.DeleteVMIByUser()
	})
	w.run(t)
	require.Zero(t, w.DomainsStarted)
}

// TestAFenceIsPublishedOnceThePodIsForceDeleted: until then nobody has looked whether the node is off, and a node that comes back keeps its guest.
func TestAFenceIsPublishedOnceThePodIsForceDeleted(t *testing.T) {
	w := newWorld(t)
	w.bootAndLose()
	away := true
	w.Fail = func(a string) error {
		if away && a == contract.ActivityDeletePod {
			return fakes.Unavailable()
		}
		return nil
	}
	w.at(time.Minute, func() { w.env.SignalWorkflow(contract.ControlFenceConfirmed, contract.ControlRequest{Actor: "alice"}) })
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

// TestANodeThatIsWellWhenItsPodIsToBeForceDeleted goes on with its guest.
func TestANodeThatIsWellWhenItsPodIsToBeForceDeleted(t *testing.T) {
	w := newWorld(t)
	w.bootAndLose()
	failures := 0
	w.Fail = func(a string) error {
		if a == contract.ActivityDeletePod && failures < 30 {
			failures++
			return fakes.Unavailable()
		}
		return nil
	}
	back := contract.NodeState{PodUID: podUID, Name: fakes.NodeName, UID: "n", ResourceVersion: "9", Ready: true}
	w.Well = &back
	w.at(time.Minute, func() { w.env.SignalWorkflow(contract.ControlFenceConfirmed, contract.ControlRequest{Actor: "alice"}) })
	w.at(time.Hour, func() {
		require.Equal(t, 30, failures)
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.Nil(t, w.Pod.DeletionTimestamp)
		require.Nil(t, w.state(t).Fenced)
		w.Well = nil
		w.DeleteVMIByUser()
	})
	w.at(time.Hour+time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
	require.Equal(t, "Succeeded", w.VMIStatus.Phase)
}
