package vm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/cluster"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/vm"
)

// world is one VM entity with its transitions on a fake cluster, with time that skips. The test plays the VMI's own
// entity.
type world struct {
	*cluster.Cluster
	env         *testsuite.TestWorkflowEnvironment
	transitions []string
	updates     int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	env := environment.New()
	w := &world{Cluster: cluster.New(t, "vm/default/web", env), env: env}
	for name, f := range map[string]any{contract.WorkflowStartVM: vm.Start, contract.WorkflowStopVM: vm.Stop,
		contract.WorkflowRestartVM: vm.Restart} {
		w.env.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
	w.env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) {
		// vm/NAMESPACE/NAME/UID/…
		w.transitions = append(w.transitions, strings.SplitN(info.WorkflowExecution.ID, "/", 5)[4])
	})
	return w
}

func (w *world) at(d time.Duration, f func()) { w.env.RegisterDelayedCallback(f, d) }

func (w *world) run(t *testing.T) {
	t.Helper()
	w.env.ExecuteWorkflow(vm.Workflow, contract.EntityInput{Namespace: cluster.Namespace, Name: cluster.Name})
	require.True(t, w.env.IsWorkflowCompleted(), "the entity never ended; calls: %v", w.Calls)
	require.NoError(t, w.env.GetWorkflowError())
	require.Nil(t, w.VM(), "the VM object must be gone")
}

// deleteVM deletes the VM and plays the VMI's end.
func (w *world) deleteVM(from time.Duration) {
	w.at(from, w.DeleteVM)
	w.at(from+5*time.Second, w.RemoveVMI)
}

func (w *world) status(t *testing.T, want string) {
	t.Helper()
	require.NotNil(t, w.VMStatus)
	require.Equal(t, want, w.VMStatus.PrintableStatus, "status: %+v", *w.VMStatus)
}

func TestAlwaysStartsStopsRestartsAndIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.status(t, "Starting"); w.SetPhase("Running") })
	w.at(2*time.Second, func() {
		w.status(t, "Running")
		require.True(t, w.VMStatus.Ready)
		w.SetStrategy("Halted")
	})
	w.at(3*time.Second, func() {
		w.status(t, "Stopping")
		require.NotNil(t, w.VMI().DeletionTimestamp)
		w.RemoveVMI()
	})
	w.at(4*time.Second, func() { w.status(t, "Stopped"); w.SetStrategy("Always") })
	w.at(5*time.Second, func() { w.status(t, "Starting"); w.SetPhase("Running") })
	w.at(6*time.Second, func() { w.status(t, "Running") })
	w.deleteVM(7 * time.Second)
	w.run(t)
	require.Equal(t, []string{"start/1", "stop/2", "start/3"}, w.transitions, "its deletion is no transition")
}

func TestHaltedDoesNothing(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Halted") })
	w.at(time.Second, func() { w.status(t, "Stopped"); require.Nil(t, w.VMI()) })
	w.deleteVM(2 * time.Second)
	w.run(t)
}

func TestOnceKeepsEndedInstance(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Once") })
	w.at(time.Second, func() { w.SetPhase("Running") })
	w.at(2*time.Second, func() { w.SetPhase("Succeeded") })
	w.at(time.Hour, func() {
		w.status(t, "Stopped")
		require.Equal(t, 1, w.Instance())
		require.Nil(t, w.VMI().DeletionTimestamp)
	})
	w.deleteVM(2 * time.Hour)
	w.run(t)
}

func TestAlwaysStartsAgainAfterPowerOff(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running") })
	w.at(2*time.Second, func() { w.SetPhase("Succeeded") })
	w.at(3*time.Second, func() { require.NotNil(t, w.VMI().DeletionTimestamp); w.RemoveVMI() })
	w.at(4*time.Second, func() {
		require.Equal(t, 2, w.Instance(), "a guest that ran is started again without delay")
		w.SetPhase("Running")
	})
	w.deleteVM(5 * time.Second)
	w.run(t)
}

// TestBoundsInstances: a guest that powers off as soon as it runs gets thirty instances at once, and then one each five
// minutes.
func TestBoundsInstances(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	var made []time.Time
	last := ""
	for i := range 900 {
		after := time.Duration(i) * time.Second
		if i > 180 {
			after += time.Duration(i-180) * 9 * time.Second
		}
		w.at(after+500*time.Millisecond, func() {
			switch {
			case w.VMI() == nil:
			case w.VMI().DeletionTimestamp != nil:
				w.RemoveVMI()
			case w.VMI().Phase == "Running":
				w.SetPhase("Succeeded")
			case w.VMI().Phase == "Pending" && w.VMI().UID != last:
				last = w.VMI().UID
				made = append(made, w.env.Now())
				w.SetPhase("Running")
			}
		})
	}
	w.at(200*time.Second, func() {
		w.status(t, "CrashLoopBackOff")
		require.Equal(t, 30, w.VMStatus.StartFailure.ConsecutiveFailCount)
	})
	w.deleteVM(3 * time.Hour)
	w.run(t)
	within := func(from time.Time) (n int) {
		for _, at := range made {
			if d := at.Sub(from); d >= 0 && d < time.Hour {
				n++
			}
		}
		return n
	}
	require.Less(t, made[29].Sub(made[0]), 3*time.Minute)
	for _, from := range made {
		require.LessOrEqual(t, within(from), 42)
	}
	require.Greater(t, within(made[0]), 38)
}

func TestBackOffGrowsWhileInstancesNeverRun(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	var made []time.Time
	last := ""
	for i := range 400 {
		w.at(time.Duration(i)*time.Second+500*time.Millisecond, func() {
			switch {
			case w.VMI() == nil:
			case w.VMI().DeletionTimestamp != nil:
				w.RemoveVMI()
			case w.VMI().Phase == "Pending" && w.VMI().UID != last:
				last = w.VMI().UID
				made = append(made, w.env.Now())
				w.SetPhase("Failed")
			}
		})
	}
	w.at(401*time.Second, func() {
		w.status(t, "CrashLoopBackOff")
		require.GreaterOrEqual(t, w.VMStatus.StartFailure.ConsecutiveFailCount, 3)
		require.NotNil(t, w.VMStatus.StartFailure.RetryAfter)
	})
	w.deleteVM(402 * time.Second)
	w.run(t)
	require.GreaterOrEqual(t, len(made), 3)
	require.GreaterOrEqual(t, made[1].Sub(made[0]), 10*time.Second)
	require.GreaterOrEqual(t, made[2].Sub(made[1]), 40*time.Second)
}

func TestRestartRequestReplacesInstance(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running") })
	w.at(2*time.Second, func() {
		w.Ask(stop(w.UID(1)), start)
	})
	w.at(3*time.Second, func() { require.NotNil(t, w.VMI().DeletionTimestamp); w.RemoveVMI() })
	w.at(4*time.Second, func() { require.Equal(t, 2, w.Instance()); w.SetPhase("Running") })
	w.at(5*time.Second, func() {
		w.status(t, "Running")
		require.Empty(t, w.VMStatus.StateChangeRequests)
	})
	w.deleteVM(6 * time.Second)
	w.run(t)
	require.Equal(t, "restart/2", w.transitions[1])
}

func TestNewerDesiredStateCancelsStart(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetStrategy("Halted") })
	w.at(2*time.Second, func() {
		require.NotNil(t, w.VMI().DeletionTimestamp, "a cancelled start takes its instance away")
		w.RemoveVMI()
	})
	w.at(3*time.Second, func() { w.status(t, "Stopped") })
	w.deleteVM(4 * time.Second)
	w.run(t)
}

func TestShowsStartDeadlineAndKeepsInstance(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(11*time.Minute, func() {
		require.Equal(t, 1, w.Instance())
		found := false
		for _, c := range w.VMStatus.Conditions {
			found = found || c.Type == "Failure" && c.Reason == "TransitionDeadlineExceeded"
		}
		require.True(t, found, "conditions: %v", w.VMStatus.Conditions)
		w.SetPhase("Running")
	})
	w.at(12*time.Minute, func() {
		w.status(t, "Running")
		for _, c := range w.VMStatus.Conditions {
			require.NotEqual(t, "Failure", c.Type, "what was late is there")
		}
	})
	w.deleteVM(13 * time.Minute)
	w.run(t)
}

func TestAPIServerOutageOnlyDelays(t *testing.T) {
	w := newWorld(t)
	out := false
	w.Fail = func(a string) error {
		if out && a != "user: set run strategy" {
			return temporal.NewApplicationError("connection refused", "Unavailable")
		}
		return nil
	}
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running") })
	w.at(2*time.Second, func() { out = true; w.SetStrategy("Halted") })
	w.at(30*time.Minute, func() { require.Nil(t, w.VMI().DeletionTimestamp); out = false })
	w.at(40*time.Minute, func() { require.NotNil(t, w.VMI().DeletionTimestamp); w.RemoveVMI() })
	w.at(41*time.Minute, func() { w.status(t, "Stopped") })
	w.deleteVM(42 * time.Minute)
	w.run(t)
}

func TestShowsUnsupportedStrategy(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("WaitAsReceiver") })
	w.at(time.Second, func() {
		require.Nil(t, w.VMI())
		w.status(t, "Stopped")
		c, ok := conditions.Get(w.VMStatus.Conditions, "Failure")
		require.True(t, ok)
		require.Equal(t, "UnsupportedSyncError", c.Reason)
	})
	w.deleteVM(2 * time.Second)
	w.run(t)
}

// TestStopReadsMissedEnd: the instance vanishes, and no observation reports it.
func TestStopReadsMissedEnd(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running") })
	w.at(2*time.Second, func() { w.Unseen(w.VanishVMI); w.SetStrategy("Halted") })
	w.at(time.Minute, func() {
		w.status(t, "Stopped")
		require.Len(t, w.transitions, 2, "one start and one stop")
	})
	w.deleteVM(2 * time.Minute)
	w.run(t)
}

// TestInstanceEndsWithoutObservation: it is deleted, and gone, before the first observation of it.
func TestInstanceEndsWithoutObservation(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, w.VanishVMI)
	w.at(5*time.Second, func() {
		require.Equal(t, 2, w.Instance(), "another one is made at once")
		w.SetPhase("Running")
	})
	w.at(6*time.Second, func() { w.status(t, "Running"); w.VanishVMI() })
	w.at(8*time.Second, w.VanishVMI)
	w.at(15*time.Second, func() {
		require.Equal(t, 4, w.Instance(), "also where one was known before")
		w.SetPhase("Running")
	})
	w.deleteVM(20 * time.Second)
	w.run(t)
}

// TestSlowStart: the status shows that there is an instance.
func TestSlowStart(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.status(t, "Starting"); require.False(t, w.VMStatus.Created) })
	w.at(time.Minute, func() { w.status(t, "Starting"); require.True(t, w.VMStatus.Created) })
	w.deleteVM(2 * time.Minute)
	w.run(t)
}

// The instance of a start without a signal is read at its deadline, before another start is opened.
func TestReadsInstanceOfStartWithoutSignal(t *testing.T) {
	w := newWorld(t)
	w.Deliver = func(signal string, payload any) {
		if signal != contract.SignalObserveVMI {
			w.Signal(signal, payload)
		}
	}
	w.at(0, func() { w.CreateVM("Always") })
	w.at(5*time.Minute, func() { w.status(t, "Starting"); require.False(t, w.VMStatus.Created) })
	w.at(time.Hour, func() {
		w.status(t, "Starting")
		require.True(t, w.VMStatus.Created)
		require.Equal(t, []string{"start/1"}, w.transitions)
		w.Deliver = nil
		w.SetPhase("Running")
	})
	w.deleteVM(2 * time.Hour)
	w.run(t)
}

func TestRestartRequestCancelsStart(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() {
		w.Ask(stop(w.UID(1)), start)
	})
	w.at(2*time.Second, func() {
		require.NotNil(t, w.VMI().DeletionTimestamp, "an instance that does not come up can be restarted")
		w.RemoveVMI()
	})
	w.at(3*time.Second, func() { require.Equal(t, 2, w.Instance()); w.SetPhase("Running") })
	w.at(4*time.Second, func() { w.status(t, "Running"); require.Empty(t, w.VMStatus.StateChangeRequests) })
	w.deleteVM(5 * time.Second)
	w.run(t)
}

func TestHugeGracePeriod(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() {
		w.EditVMI(func(vmi *kubevirt.VirtualMachineInstance) {
			vmi.Spec.TerminationGracePeriodSeconds = new(int64(9_300_000_000))
		})
		w.SetPhase("Running")
	})
	w.at(2*time.Second, func() { w.SetStrategy("Halted") })
	w.at(6*24*time.Hour, func() {
		require.NotNil(t, w.VMI().DeletionTimestamp)
		require.Len(t, w.transitions, 2, "the stop waits for the guest")
		w.RemoveVMI()
	})
	w.at(6*24*time.Hour+time.Second, func() { w.status(t, "Stopped") })
	w.deleteVM(7 * 24 * time.Hour)
	w.run(t)
}

// TestCancelDuringCreateDeletesInstance: the call is being repeated when the start is cancelled, and then creates the
// instance.
func TestCancelDuringCreateDeletesInstance(t *testing.T) {
	w := newWorld(t)
	attempts, cancelled := 0, make(chan struct{})
	w.Fail = func(a string) error {
		if a != contract.ActivityCreateVMI {
			return nil
		}
		if attempts++; attempts < 3 { // both local attempts
			return temporal.NewApplicationError("connection refused", "Unavailable")
		}
		<-cancelled
		return nil
	}
	w.at(0, func() { w.CreateVM("Always") })
	w.at(300*time.Millisecond, func() { w.update(t, contract.ControlCancelTransition, alice("wrong image"), "") })
	w.at(350*time.Millisecond, func() { close(cancelled) })
	w.at(3*time.Second, func() {
		require.Equal(t, 3, attempts)
		require.NotNil(t, w.VMI())
		require.NotNil(t, w.VMI().DeletionTimestamp, "what the start has made after all goes with it")
		w.RemoveVMI()
	})
	w.at(time.Hour, func() { require.Nil(t, w.VMI()); w.status(t, "Stopped") })
	w.deleteVM(2 * time.Hour)
	w.run(t)
}

// TestShowsFailedCompensation: a cancelled start whose instance still exists is shown.
func TestShowsFailedCompensation(t *testing.T) {
	w := newWorld(t)
	refuses := false
	w.Fail = func(a string) error {
		if a == contract.ActivityDeleteVMI && refuses {
			return temporal.NewNonRetryableApplicationError("a webhook says no", contract.ErrorInvalid, nil)
		}
		return nil
	}
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { refuses = true; w.update(t, contract.ControlCancelTransition, alice(""), "") })
	w.at(2*time.Second, func() {
		require.Contains(t, w.condition("Failure").Message, "a webhook says no")
		refuses = false
	})
	w.deleteVM(time.Hour)
	w.run(t)
}

// TestBacksOffRestartWhoseDeleteIsRefused: the old guest still runs, so the restart has failed.
func TestBacksOffRestartWhoseDeleteIsRefused(t *testing.T) {
	w := newWorld(t)
	refuses := true
	w.Fail = func(a string) error {
		if a == contract.ActivityDeleteVMI && refuses {
			return temporal.NewNonRetryableApplicationError("a webhook says no", contract.ErrorInvalid, nil)
		}
		return nil
	}
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running") })
	w.at(2*time.Second, func() {
		w.Ask(stop(w.UID(1)), start)
	})
	w.at(time.Hour, func() {
		require.Contains(t, w.condition("Failure").Message, "a webhook says no")
		require.Less(t, len(w.transitions), 50, "a pause that doubles up to two minutes")
		refuses = false
	})
	w.at(time.Hour+3*time.Minute, func() { require.NotNil(t, w.VMI().DeletionTimestamp); w.RemoveVMI() })
	w.at(time.Hour+4*time.Minute, func() { require.Equal(t, 2, w.Instance()); w.SetPhase("Running") })
	w.at(time.Hour+5*time.Minute, func() { w.status(t, "Running"); require.Empty(t, w.condition("Failure").Type) })
	w.deleteVM(2 * time.Hour)
	w.run(t)
}
