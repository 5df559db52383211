package vm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/vm"
)

// TestSuccessorProvesEnd: a worker dies after it has made the next instance. The signals that the earlier instance is
// gone and that the next one runs then arrive together, and the restart sees only the last.
func TestSuccessorProvesEnd(t *testing.T) {
	for name, c := range map[string]struct {
		in     contract.TransitionInput
		news   contract.InstanceProgress
		within time.Duration // 0: the deadline passes
	}{
		"the next one runs": {
			contract.TransitionInput{VMI: contract.Object{UID: "vmi-1"}},
			contract.InstanceProgress{State: contract.ProgressRunning, VMIUID: "vmi-2", Phase: "Running"},
			10 * time.Second,
		},
		"the same one has ended": {
			contract.TransitionInput{VMI: contract.Object{UID: "vmi-1"}},
			contract.InstanceProgress{State: contract.ProgressEnded, VMIUID: "vmi-1", Phase: "Succeeded"}, 0,
		},
		"UID unknown": {
			contract.TransitionInput{},
			contract.InstanceProgress{State: contract.ProgressEnded, VMIUID: "vmi-1", Phase: "Succeeded"}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := environment.New()
			env.RegisterActivityWithOptions(
				func(context.Context, contract.DeleteVMIInput) (contract.DeleteVMIResult, error) {
					return contract.DeleteVMIResult{}, nil
				}, activity.RegisterOptions{Name: contract.ActivityDeleteVMI})
			env.RegisterActivityWithOptions(
				func(context.Context, contract.CreateVMIInput) (contract.CreateVMIResult, error) {
					return contract.CreateVMIResult{VMI: contract.VMIObservation{UID: "vmi-2"}}, nil
				}, activity.RegisterOptions{Name: contract.ActivityCreateVMI})
			began := env.Now()
			onInspect(env, contract.PodObservation{NodeName: "n", DeletionTimestamp: &began})
			c.in.VM, c.in.Deadline = contract.Object{Namespace: "a", Name: "web", UID: "vm-1"},
				began.Add(10*time.Minute)
			env.RegisterDelayedCallback(func() { env.SignalWorkflow(contract.SignalProgress, c.news) }, 5*time.Second)
			env.ExecuteWorkflow(vm.Restart, c.in)
			require.True(t, env.IsWorkflowCompleted())
			if c.within == 0 {
				require.ErrorContains(t, env.GetWorkflowError(), "the instance is not gone after 10m0s")
				return
			}
			require.NoError(t, env.GetWorkflowError())
			require.Less(t, env.Now().Sub(began), c.within)
			var r contract.TransitionResult
			require.NoError(t, env.GetWorkflowResult(&r))
			require.Equal(t, "vmi-2", r.VMIUID)
		})
	}
}

// The deadline of a start counts from the creation of the instance: waiting in virtflow's queues before that does not
// count.
func TestStartDeadlineCountsFromCreation(t *testing.T) {
	env := environment.New()
	env.RegisterActivityWithOptions(func(context.Context, contract.CreateVMIInput) (contract.CreateVMIResult, error) {
		return contract.CreateVMIResult{VMI: contract.VMIObservation{UID: "vmi-1"}}, nil
	}, activity.RegisterOptions{Name: contract.ActivityCreateVMI})
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(contract.SignalProgress,
			contract.InstanceProgress{State: contract.ProgressRunning, VMIUID: "vmi-1", Phase: "Running"})
	}, 5*time.Minute)
	env.ExecuteWorkflow(vm.Start, contract.TransitionInput{
		VM: contract.Object{Namespace: "a", Name: "web", UID: "vm-1"}, Deadline: env.Now().Add(-time.Minute),
	})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
}

// TestStopDeadlineCountsFromDeletion: a stop whose request came through only after its deadline still waits for the
// guest, and no longer than it may.
func TestStopDeadlineCountsFromDeletion(t *testing.T) {
	const limit = 30 * time.Second
	for goneAfter, want := range map[time.Duration]string{limit - time.Second: "",
		limit + time.Second: "the instance is not gone after"} {
		env := environment.New()
		begun := env.Now()
		long := begun.Add(-entity.StopSlack)
		onInspect(env, contract.PodObservation{NodeName: "n", DeletionTimestamp: &long})
		attempts := 0
		env.RegisterActivityWithOptions(
			func(context.Context, contract.DeleteVMIInput) (contract.DeleteVMIResult, error) {
				if attempts++; attempts < 9 {
					return contract.DeleteVMIResult{}, errors.New("the API server does not answer")
				}
				require.Greater(t, env.Now().Sub(begun), limit)
				signalGone(env, goneAfter)
				return contract.DeleteVMIResult{}, nil
			}, activity.RegisterOptions{Name: contract.ActivityDeleteVMI})
		runStop(t, env, limit, want)
	}
}

// TestStopWaitingInQueueIsNotLate: under load, its pod may not be deleted yet at the deadline.
func TestStopWaitingInQueueIsNotLate(t *testing.T) {
	for goneAfter, want := range map[time.Duration]string{
		20 * time.Minute: "", 2 * time.Hour: "the instance is not gone after 1h0m30s"} {
		env := environment.New()
		looked := onInspect(env, contract.PodObservation{NodeName: "n", Phase: "Running"})
		asked := 0
		env.RegisterActivityWithOptions(
			func(context.Context, contract.DeleteVMIInput) (contract.DeleteVMIResult, error) {
				asked++
				signalGone(env, goneAfter)
				return contract.DeleteVMIResult{}, nil
			}, activity.RegisterOptions{Name: contract.ActivityDeleteVMI})
		runStop(t, env, 30*time.Second, want)
		require.Equal(t, 1, asked)
		require.Greater(t, *looked, 1)
	}
}

// signalGone signals after a while that the instance is gone.
func signalGone(env *testsuite.TestWorkflowEnvironment, after time.Duration) {
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(contract.SignalProgress, contract.InstanceProgress{State: contract.ProgressAbsent})
	}, after)
}

// runStop runs a stop to its end; want is its error, or "".
func runStop(t *testing.T, env *testsuite.TestWorkflowEnvironment, limit time.Duration, want string) {
	t.Helper()
	env.ExecuteWorkflow(vm.Stop, contract.TransitionInput{
		VM: contract.Object{Namespace: "a", Name: "web", UID: "vm-1"}, VMI: contract.Object{UID: "vmi-1"},
		Deadline: env.Now().Add(limit),
	})
	require.True(t, env.IsWorkflowCompleted())
	if want == "" {
		require.NoError(t, env.GetWorkflowError())
	} else {
		require.ErrorContains(t, env.GetWorkflowError(), want)
	}
}

// TestReadsInstanceAtDeadline: signals may be late or out of order.
func TestReadsInstanceAtDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		transition any
		read       contract.ReadVMIResult
		want       string
	}{
		"stop: it is gone": {vm.Stop, contract.ReadVMIResult{}, "The instance is gone."},
		"start: it runs": {vm.Start,
			contract.ReadVMIResult{VMI: &contract.VMIObservation{UID: "vmi-1", Phase: "Running"}}, "The guest runs"},
		"start: it has ended": {vm.Start, contract.ReadVMIResult{
			VMI: &contract.VMIObservation{UID: "vmi-1", Phase: "Failed", Conditions: []contract.Condition{{
				Type: "Synchronized", Status: "False", Reason: "Synchronizing with the Domain failed.",
				Message: "no such CPU"}}}},
			"!ended before its guest was seen running: ended Failed; Synchronized is False: " +
				"Synchronizing with the Domain failed.: no such CPU"},
		"start: it is gone": {vm.Start, contract.ReadVMIResult{}, "!ended before its guest was seen running"},
		"start: it is placed": {vm.Start,
			contract.ReadVMIResult{VMI: &contract.VMIObservation{UID: "vmi-1", Phase: "Scheduled"}},
			"!the guest does not run yet after 10m0s; see the VirtualMachineInstance's conditions"},
		"start: it waits": {vm.Start, contract.ReadVMIResult{VMI: &contract.VMIObservation{UID: "vmi-1", Phase: "Scheduling",
			Conditions: []contract.Condition{{Type: "PodScheduled", Status: "False", Reason: "Unschedulable",
				Message: "0/2 nodes are available"}}}},
			"!the guest does not run yet after 10m0s; PodScheduled is False: Unschedulable: 0/2 nodes are available"},
	} {
		t.Run(name, func(t *testing.T) {
			env := environment.New()
			env.RegisterActivityWithOptions(
				func(context.Context, contract.CreateVMIInput) (contract.CreateVMIResult, error) {
					return contract.CreateVMIResult{VMI: contract.VMIObservation{UID: "vmi-1"}}, nil
				}, activity.RegisterOptions{Name: contract.ActivityCreateVMI})
			env.RegisterActivityWithOptions(
				func(context.Context, contract.DeleteVMIInput) (contract.DeleteVMIResult, error) {
					return contract.DeleteVMIResult{}, nil
				}, activity.RegisterOptions{Name: contract.ActivityDeleteVMI})
			env.RegisterActivityWithOptions(
				func(_ context.Context, in contract.ReadVMIInput) (contract.ReadVMIResult, error) {
					require.Equal(t, "vmi-1", in.VMI.UID)
					return c.read, nil
				}, activity.RegisterOptions{Name: contract.ActivityReadVMI})
			env.ExecuteWorkflow(c.transition, contract.TransitionInput{
				VM: contract.Object{Namespace: "a", Name: "web", UID: "vm-1"}, VMI: contract.Object{UID: "vmi-1"},
				Deadline: env.Now().Add(time.Minute),
			})
			if problem, fails := strings.CutPrefix(c.want, "!"); fails {
				require.ErrorContains(t, env.GetWorkflowError(), problem)
				return
			}
			require.NoError(t, env.GetWorkflowError())
			var r contract.TransitionResult
			require.NoError(t, env.GetWorkflowResult(&r))
			require.Contains(t, r.Summary, c.want)
		})
	}
}

// onInspect answers the read of an instance with this launcher pod, and counts the reads.
func onInspect(env *testsuite.TestWorkflowEnvironment, pod contract.PodObservation) *int {
	n := 0
	env.RegisterActivityWithOptions(func(context.Context, contract.ReadVMIInput) (contract.ReadVMIResult, error) {
		n++
		at := env.Now()
		return contract.ReadVMIResult{VMI: &contract.VMIObservation{UID: "vmi-1", Phase: "Running",
			DeletionTimestamp: &at, Finalizers: []string{contract.FinalizerVMI}},
			FindPodResult: contract.FoundPods(pod)}, nil
	}, activity.RegisterOptions{Name: contract.ActivityReadVMI})
	return &n
}

// TestRefusedStopIsResult: a refused stop is a result with the current objects for the entity, and no failure.
func TestRefusedStopIsResult(t *testing.T) {
	now := contract.VMObservation{UID: "vm-1", ResourceVersion: "7", RunStrategy: "Always"}
	env := environment.New()
	env.RegisterActivityWithOptions(func(context.Context, contract.DeleteVMIInput) (contract.DeleteVMIResult, error) {
		return contract.DeleteVMIResult{Refused: "it is to run", VM: &now, VMI: &contract.VMIObservation{UID: "vmi-1"}},
			nil
	}, activity.RegisterOptions{Name: contract.ActivityDeleteVMI})
	env.ExecuteWorkflow(vm.Restart,
		contract.TransitionInput{VM: contract.Object{Namespace: "a", Name: "web", UID: "vm-1"},
			Deadline: env.Now().Add(time.Minute)})
	require.NoError(t, env.GetWorkflowError())
	var r contract.TransitionResult
	require.NoError(t, env.GetWorkflowResult(&r))
	require.Equal(t, "it is to run", r.Refused)
	require.Equal(t, now, *r.VM)
	require.Equal(t, "vmi-1", r.VMI.UID)
}

// A cancelled start deletes the instance, also where the answer to its creation was lost: the instance names the start
// that made it.
func TestCancelledStartDeletesInstance(t *testing.T) {
	env := environment.New()
	var made []string
	env.RegisterActivityWithOptions(
		func(_ context.Context, in contract.CreateVMIInput) (contract.CreateVMIResult, error) {
			made = append(made, in.Transition)
			env.CancelWorkflow()
			return contract.CreateVMIResult{}, temporal.NewApplicationError("the answer was lost", "Kubernetes")
		}, activity.RegisterOptions{Name: contract.ActivityCreateVMI})
	var in contract.DeleteVMIInput
	env.RegisterActivityWithOptions(
		func(_ context.Context, got contract.DeleteVMIInput) (contract.DeleteVMIResult, error) {
			in = got
			return contract.DeleteVMIResult{}, nil
		}, activity.RegisterOptions{Name: contract.ActivityDeleteVMI})
	env.ExecuteWorkflow(vm.Start,
		contract.TransitionInput{VM: contract.Object{Namespace: "a", Name: "web", UID: "vm-1"},
			Deadline: env.Now().Add(time.Minute)})
	require.True(t, temporal.IsCanceledError(env.GetWorkflowError()))
	require.Equal(t, "default-test-workflow-id@default-test-run-id", in.MadeBy,
		"a run before may have had the same workflow ID")
	require.Equal(t, made[0], in.MadeBy)
	require.Empty(t, in.VMI.UID)
}
