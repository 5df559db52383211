package vmi_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/cluster"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/vmi"
)

// world is one VMI entity on a fake cluster, with time that skips.
type world struct {
	*cluster.Cluster
	env *testsuite.TestWorkflowEnvironment
}

func newWorld(t *testing.T) *world {
	t.Helper()
	env := environment.New()
	return &world{Cluster: cluster.New(t, "vmi/default/web", env), env: env}
}

// next returns the same cluster for another run of the entity.
func (w *world) next() *world {
	env := environment.New()
	w.Use(env)
	return &world{Cluster: w.Cluster, env: env}
}

// at plays an event of the outside world at a time after the start.
func (w *world) at(d time.Duration, f func()) { w.env.RegisterDelayedCallback(f, d) }

func (w *world) run(t *testing.T) {
	t.Helper()
	w.runWith(t, nil)
}

// runWith continues from the state that an earlier run carried over.
func (w *world) runWith(t *testing.T, carried []byte) {
	t.Helper()
	w.env.ExecuteWorkflow(vmi.Workflow,
		contract.EntityInput{Namespace: cluster.Namespace, Name: cluster.Name, Carried: carried})
	require.True(t, w.env.IsWorkflowCompleted(), "the entity never ended; calls: %v", w.Calls)
	require.NoError(t, w.env.GetWorkflowError())
	require.Nil(t, w.VMI(), "the VMI object must be gone")
	require.Nil(t, w.Pod(), "the pod must be gone")
}

// condition returns a condition as last written, or an empty one.
func (w *world) condition(kind string) contract.Condition {
	c, _ := conditions.Get(w.VMIStatus.Conditions, kind)
	return c
}

// boot plays the usual begin: created at 0 s, the pod runs at 1 s.
func (w *world) boot() {
	w.at(0, func() { w.CreateVMI() })
	w.at(time.Second, w.RunPod)
}

func TestBootStopAndCleanUp(t *testing.T) {
	w := newWorld(t)
	w.boot()
	w.at(10*time.Second, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.Equal(t, cluster.NodeName, w.VMIStatus.NodeName)
		require.Equal(t, []string{"10.0.0.9"}, w.VMIStatus.IPs)
		require.Equal(t, "True", w.Pod().Unpaused)
		w.DeleteVMI()
	})
	w.at(12*time.Second, func() {
		require.NotNil(t, w.Pod().DeletionTimestamp, "deleting the VMI must delete its pod")
		require.NotNil(t, w.VMI(), "the VMI must stay until its pod has ended")
		w.EndPod(contract.ReasonShutdown, true, 0)
	})
	w.run(t)
	require.Equal(t, "Succeeded", w.VMIStatus.Phase)
	require.Equal(t, 1, w.DomainsStarted)
	require.Empty(t, w.Operations, "a launcher that ran before it was deleted receives the signal of the kubelet")
	reasons := []string{}
	for _, e := range w.Events {
		reasons = append(reasons, e.Reason)
	}
	require.Equal(t, []string{"Created", "Started", "ShuttingDown", "Stopped", "Deleted"}, reasons)
}

func TestGuestEndDecidesPhase(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		exit         int32
		phase        string
	}{
		{"guest powers off", contract.ReasonShutdown, 0, "Succeeded"},
		{"guest panics", contract.ReasonCrashed, 1, "Failed"},
		{"killed at the end of its grace period", contract.ReasonDestroyed, 0, "Failed"},
		{"launcher says nothing and fails", "", 137, "Failed"},
		{"launcher says nothing and exits well", "", 0, "Succeeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.boot()
			w.at(5*time.Second, func() { w.EndPod(tc.reason, true, tc.exit) })
			w.at(8*time.Second, func() {
				require.Equal(t, tc.phase, w.VMIStatus.Phase)
				require.NotNil(t, w.Pod(), "the pod of an ended guest stays for its owner to read")
				require.Empty(t, w.Pod().Finalizers, "but nothing holds it")
				w.DeleteVMI()
			})
			w.run(t)
		})
	}
}

func TestDomainStateArrivesBeforePodEnds(t *testing.T) {
	w := newWorld(t)
	w.boot()
	w.at(5*time.Second, func() { w.DomainChanges(contract.DomainShutoff, contract.ReasonShutdown) })
	w.at(6*time.Second, func() { require.Equal(t, "Succeeded", w.VMIStatus.Phase) })
	w.at(7*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.at(8*time.Second, w.DeleteVMI)
	w.run(t)
}

func TestRefusedDomainFailsVMI(t *testing.T) {
	w := newWorld(t)
	w.Fail = func(a string) error {
		if a == contract.ActivityStartDomain {
			return temporal.NewNonRetryableApplicationError("unsupported machine type", contract.ErrorStartFailed, nil)
		}
		return nil
	}
	w.boot()
	w.at(5*time.Second, func() {
		require.Equal(t, "Failed", w.VMIStatus.Phase)
		require.Contains(t, w.condition("Synchronized").Message, "unsupported machine type")
		w.EndPod(contract.ReasonFailed, false, 1)
	})
	w.at(6*time.Second, w.DeleteVMI)
	w.run(t)
	require.Zero(t, w.DomainsStarted)
}

func TestRetriesPodUntilQuotaAllows(t *testing.T) {
	w := newWorld(t)
	refused, tries := true, 0
	w.Fail = func(a string) error {
		if refused && a == contract.ActivityCreatePod {
			tries++
			return temporal.NewNonRetryableApplicationError("exceeded quota", contract.ErrorForbidden,
				errors.New("quota"))
		}
		return nil
	}
	w.at(0, func() { w.CreateVMI() })
	w.at(time.Second/2, func() {
		require.NotNil(t, w.VMIStatus, "the first attempt that failed shows")
		require.Equal(t, "Pending", w.VMIStatus.Phase)
		require.Equal(t, "FailedCreate", w.VMIStatus.Conditions[1].Reason)
		require.Contains(t, w.VMIStatus.Conditions[1].Message, "exceeded quota")
	})
	w.at(3*time.Minute, func() {
		require.Equal(t, 1, w.Count(contract.ActivityPatchVMI), "the same failure is written once")
		require.Equal(t, 8, tries, "after 1 s, doubled each time")
		refused = false
	})
	w.at(20*time.Minute, w.RunPod)
	w.at(21*time.Minute, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.Empty(t, w.condition("Synchronized").Type, "the failure must be gone")
		w.DeleteVMI()
	})
	w.at(22*time.Minute, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
}

func TestDeletedWhileNodeWorkerIsDown(t *testing.T) {
	w := newWorld(t)
	w.Fail = func(a string) error {
		if a == contract.ActivityStartDomain {
			return temporal.NewApplicationError("no launcher answers", contract.ErrorNoLauncher)
		}
		return nil
	}
	w.boot()
	w.at(30*time.Second, func() {
		require.Equal(t, "Scheduled", w.VMIStatus.Phase, "a boot that hangs must show")
		w.DeleteVMI()
	})
	w.at(31*time.Second, func() { w.EndPod(contract.ReasonNeverRan, false, 0) })
	w.run(t)
	require.Zero(t, w.DomainsStarted)
}

// TestLauncherMissesSignal: the pod is deleted before its containers are seen to run. Once they run, the launcher is
// asked to end, and only once.
func TestLauncherMissesSignal(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVMI() })
	w.at(time.Second, w.PlacePod)
	w.at(2*time.Second, w.DeleteVMI)
	w.at(3*time.Second, func() {
		require.NotNil(t, w.Pod().DeletionTimestamp)
		require.Empty(t, w.Operations)
		w.BeginPod()
	})
	w.at(10*time.Second, func() { require.Nil(t, w.VMI(), "the grace period does not have to pass") })
	w.run(t)
	require.Equal(t, []contract.Operation{contract.OperationEnd}, w.Operations)
	require.Zero(t, w.DomainsStarted)
}

func TestVanishedPodFailsVMI(t *testing.T) {
	w := newWorld(t)
	w.boot()
	w.at(5*time.Second, func() {
		w.VanishPod()
	})
	w.at(6*time.Second, func() {
		require.Equal(t, "Failed", w.VMIStatus.Phase)
		w.DeleteVMI()
	})
	w.run(t)
	require.Equal(t, 1, w.DomainsStarted)
}

// ran edits an instance to one whose status was written while it ran.
func ran(vmi *kubevirt.VirtualMachineInstance) {
	vmi.Status.Phase = kubevirt.Running
	vmi.Status.PhaseTransitionTimestamps = []kubevirt.VirtualMachineInstancePhaseTransitionTimestamp{
		{Phase: kubevirt.Running, PhaseTransitionTimestamp: metav1.NewTime(time.Unix(1000, 0))},
	}
}

// runs makes an instance with a pod that runs, and edits its status.
func (w *world) runs(edit func(*kubevirt.VirtualMachineInstance)) {
	w.CreateVMI()
	w.CreatePod()
	w.RunPod()
	w.EditVMI(edit)
}

// TestAdoptsRunningInstance: the entity's history is lost while the guest runs.
func TestAdoptsRunningInstance(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() {
		w.Unseen(func() {
			w.runs(ran)
			w.EditPod(func(p *corev1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions,
					corev1.PodCondition{Type: contract.ConditionUnpaused, Status: "True"})
			})
		})
		w.Domain = &contract.DomainObservation{PodUID: w.Pod().UID, Sequence: 4, State: contract.DomainRunning}
		w.SendAll()
	})
	w.at(5*time.Second, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.Equal(t, time.Unix(1000, 0).UTC(), w.VMIStatus.PhaseTimes[0].Time.UTC(), "what the status said stays")
		w.DeleteVMI()
	})
	w.at(6*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
	require.Zero(t, w.DomainsStarted, "a running domain must be found, not started again")
}

// TestSignalsTwiceLateAndReversed: invariant 5 for one life of a VMI.
func TestSignalsTwiceLateAndReversed(t *testing.T) {
	w := newWorld(t)
	var seen []func()
	w.Deliver = func(signal string, payload any) {
		send := func() { w.env.SignalWorkflow(signal, payload) }
		w.env.RegisterDelayedCallback(send, time.Millisecond)
		w.env.RegisterDelayedCallback(send, 2*time.Millisecond)
		seen = append(seen, send)
		for i := len(seen) - 1; i >= 0; i-- {
			w.env.RegisterDelayedCallback(seen[i], 100*time.Millisecond+time.Duration(len(seen)-i)*time.Millisecond)
		}
	}
	w.boot()
	w.at(10*time.Second, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		w.DeleteVMI()
	})
	w.at(12*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
	require.Equal(t, 1, w.DomainsStarted)
	require.Equal(t, "Succeeded", w.VMIStatus.Phase)
}

// TestDeletedBeforePodIsCreated: the API server refuses the pod because the VMI is being deleted, which was not
// observed yet.
func TestDeletedBeforePodIsCreated(t *testing.T) {
	w := newWorld(t)
	w.Fail = func(a string) error {
		if a == contract.ActivityCreatePod {
			w.DeleteVMI()
			return temporal.NewNonRetryableApplicationError("the VirtualMachineInstance is being deleted",
				contract.ErrorGone, nil)
		}
		return nil
	}
	w.at(0, func() { w.CreateVMI() })
	w.run(t)
	require.Equal(t, "Failed", w.VMIStatus.Phase)
}

// TestDeletedWithLostNode: the node dies before its worker starts the domain, and the pod is force-deleted.
func TestDeletedWithLostNode(t *testing.T) {
	w := newWorld(t)
	w.Fail = func(a string) error {
		if a == contract.ActivityStartDomain {
			return temporal.NewApplicationError("no launcher answers", contract.ErrorNoLauncher)
		}
		return nil
	}
	w.boot()
	w.at(5*time.Second, func() {
		w.VanishPod()
	})
	w.at(6*time.Second, w.DeleteVMI)
	w.at(10*time.Second, func() { require.Nil(t, w.VMI(), "nothing is to be waited for") })
	w.run(t)
}

// TestShowsRefusedPodOnInstanceOfVM: an instance that its VM made is Pending from the start, and still shows the
// problem.
func TestShowsRefusedPodOnInstanceOfVM(t *testing.T) {
	w := newWorld(t)
	w.Fail = func(a string) error {
		if a == contract.ActivityCreatePod {
			return temporal.NewNonRetryableApplicationError("exceeded quota", contract.ErrorForbidden, nil)
		}
		return nil
	}
	w.at(0, func() {
		w.CreateVM("Halted")
		w.CreateVMI(w.OwnedByVM, func(vmi *kubevirt.VirtualMachineInstance) { vmi.Status.Phase = kubevirt.Pending })
	})
	w.at(3*time.Minute, func() {
		require.NotNil(t, w.VMIStatus, "a refusal must show")
		require.Equal(t, "FailedCreate", w.VMIStatus.Conditions[1].Reason)
		w.DeleteVMI()
	})
	w.run(t)
}

// TestAdoptsWhileAPIServerIsDown: a booting VMI is adopted, and its pod cannot be read yet.
func TestAdoptsWhileAPIServerIsDown(t *testing.T) {
	w := newWorld(t)
	out := true
	w.Fail = func(a string) error {
		if out && a == contract.ActivityFindPod {
			return temporal.NewApplicationError("connection refused", "Kubernetes")
		}
		return nil
	}
	w.at(0, func() {
		w.CreateVMI(func(vmi *kubevirt.VirtualMachineInstance) { vmi.Status.Phase = kubevirt.Scheduling })
		w.Unseen(w.CreatePod)
	})
	w.at(5*time.Minute, func() { out = false })
	w.at(10*time.Minute, func() { w.RunPod() })
	w.at(11*time.Minute, func() { require.Equal(t, "Running", w.VMIStatus.Phase); w.DeleteVMI() })
	w.at(12*time.Minute, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
}

// TestFindsMissedPodEnd: the pod of a deleted VMI ends, and no observation reports it.
func TestFindsMissedPodEnd(t *testing.T) {
	w := newWorld(t)
	w.boot()
	w.at(10*time.Second, w.DeleteVMI)
	w.at(time.Minute, func() { w.Unseen(w.VanishPod) })
	w.at(11*time.Minute, func() { require.Nil(t, w.VMI(), "a missed observation must not hold it for ever") })
	w.run(t)
}

// TestWriteConflictIsReadThenBacksOff: a conflict returns the current object. A write that conflicts with nothing new
// is repeated after a back-off.
func TestWriteConflictIsReadThenBacksOff(t *testing.T) {
	w := newWorld(t)
	writes := func() int {
		n := 0
		for _, c := range w.Calls {
			if c == contract.ActivityPatchVMI {
				n++
			}
		}
		return n
	}
	before := 0
	w.boot()
	w.at(time.Minute, func() {
		before = writes()
		w.Kube.SetResourceVersion(7)
		w.Unseen(func() { w.EditVMI(func(vmi *kubevirt.VirtualMachineInstance) { vmi.Labels["a"] = "b" }) })
		w.Kube.SetResourceVersion(1000)
		w.node(func(o *contract.NodeState) { o.Ready, o.Since = false, o.Since.Add(-time.Hour) })
	})
	w.at(2*time.Minute, func() {
		require.NotEmpty(t, w.condition(contract.ConditionNodeLost).Type)
		require.Equal(t, 2, writes()-before)
		before = writes()
		w.Conflicts("virtualmachineinstances", true)
		w.node(func(*contract.NodeState) {})
	})
	w.at(time.Hour, func() {
		require.Less(t, writes()-before, 50, "a pause that doubles up to two minutes")
		w.Conflicts("virtualmachineinstances", false)
	})
	w.at(time.Hour+3*time.Minute, func() {
		require.Empty(t, w.condition(contract.ConditionNodeLost).Type)
		w.DeleteVMI()
	})
	w.at(time.Hour+4*time.Minute, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
}

// entityOf is the workflow, for tests that end a run of it.
var entityOf = vmi.Workflow

// carried returns the input of the next run, once this one has continued as new.
func (w *world) carried(t *testing.T) []byte {
	t.Helper()
	w.env.ExecuteWorkflow(vmi.Workflow, contract.EntityInput{Namespace: cluster.Namespace, Name: cluster.Name})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, w.env.GetWorkflowError(), &again)
	var in contract.EntityInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	return in.Carried
}
