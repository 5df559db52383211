package vm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// cores makes a change that an instance cannot follow while it runs.
func cores(vm *kubevirt.VirtualMachine) {
	vm.Spec.Template.Spec.Domain.CPU = &kubevirt.CPU{Cores: 2}
}

var start = contract.StateChangeRequest{Action: "Start"}

func stop(uid string) contract.StateChangeRequest {
	return contract.StateChangeRequest{Action: "Stop", UID: uid}
}

func TestRerunOnFailureRestartsOnlyAfterFailure(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("RerunOnFailure") })
	w.at(time.Second, func() {
		require.Equal(t, 1, w.Instance(), "a strategy that is new to the VM starts it")
		w.SetPhase("Running")
	})
	w.at(2*time.Second, func() {
		require.Equal(t, "RerunOnFailure", w.VMStatus.RunStrategy)
		w.SetPhase("Failed")
	})
	w.at(3*time.Second, func() {
		require.Equal(t, []contract.StateChangeRequest{start}, w.VM().StateChangeRequests,
			"that it is to run again is written down")
		require.NotNil(t, w.VMI().DeletionTimestamp)
		w.RemoveVMI()
	})
	w.at(4*time.Second, func() { require.Equal(t, 2, w.Instance(), "it ran: no back-off"); w.SetPhase("Running") })
	w.at(5*time.Second, func() {
		require.Empty(t, w.VMStatus.StateChangeRequests)
		w.SetPhase("Succeeded")
	})
	w.at(6*time.Second, func() { require.NotNil(t, w.VMI().DeletionTimestamp); w.RemoveVMI() })
	w.at(time.Hour, func() {
		require.Nil(t, w.VMI(), "a guest that powered off stays off")
		w.status(t, "Stopped")
		w.Ask(start)
	})
	w.at(time.Hour+time.Second, func() { require.Equal(t, 3, w.Instance()); w.SetPhase("Running") })
	w.at(time.Hour+2*time.Second, func() { require.Empty(t, w.VMStatus.StateChangeRequests); w.Ask(stop(w.UID(3))) })
	w.at(time.Hour+3*time.Second, func() { w.status(t, "Stopping"); w.RemoveVMI() })
	w.at(2*time.Hour, func() { require.Nil(t, w.VMI()); require.Empty(t, w.VM().StateChangeRequests) })
	w.deleteVM(3 * time.Hour)
	w.run(t)
}

func TestRerunOnFailureBacksOffFromInstancesThatNeverRan(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("RerunOnFailure") })
	w.at(time.Second, func() { w.SetPhase("Failed") })
	w.at(2*time.Second, func() { w.RemoveVMI() })
	w.at(5*time.Second, func() {
		require.Nil(t, w.VMI())
		w.status(t, "CrashLoopBackOff")
		require.Equal(t, 1, w.VMStatus.StartFailure.ConsecutiveFailCount)
	})
	w.at(20*time.Second, func() { require.Equal(t, 2, w.Instance()); w.SetPhase("Running") })
	w.at(21*time.Second, func() { require.Nil(t, w.VMStatus.StartFailure, "one that ran ends the count") })
	w.deleteVM(time.Minute)
	w.run(t)
}

// TestRerunOnFailureStartsOnceWhenSet: a change from another strategy starts the VM. The same VM, observed by a
// workflow without history, is not started.
func TestRerunOnFailureStartsOnceWhenSet(t *testing.T) {
	for last, starts := range map[string]bool{"Halted": true, "RerunOnFailure": false} {
		t.Run(last, func(t *testing.T) {
			w := newWorld(t)
			w.at(0, func() {
				w.Unseen(func() { w.CreateVM("RerunOnFailure") })
				w.EditVMStatus(func(s *kubevirt.VirtualMachineStatus) {
					s.RunStrategy = kubevirt.VirtualMachineRunStrategy(last)
				})
			})
			w.at(time.Minute, func() {
				require.Equal(t, starts, w.VMI() != nil)
				if !starts {
					w.status(t, "Stopped")
				}
			})
			w.deleteVM(time.Hour)
			w.run(t)
		})
	}
}

func TestManualFollowsRequests(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Manual") })
	w.at(time.Minute, func() { require.Nil(t, w.VMI()); w.status(t, "Stopped"); w.Ask(start) })
	w.at(2*time.Minute, func() { require.Equal(t, 1, w.Instance()); w.SetPhase("Failed") })
	w.at(3*time.Minute, func() {
		require.Nil(t, w.VMI().DeletionTimestamp, "an ended instance stays until a request")
		require.Nil(t, w.VMStatus.StartFailure, "and is not counted")
		w.Ask(stop(w.UID(1)), start)
	})
	w.at(3*time.Minute+time.Second, func() { require.NotNil(t, w.VMI().DeletionTimestamp); w.RemoveVMI() })
	w.at(3*time.Minute+2*time.Second, func() {
		require.Equal(t, 2, w.Instance(), "without a back-off")
		w.SetPhase("Running")
	})
	w.at(4*time.Minute, func() {
		w.status(t, "Running")
		require.Empty(t, w.VMStatus.StateChangeRequests)
		w.Ask(stop(w.UID(1)))
	})
	w.at(5*time.Minute, func() {
		require.Nil(t, w.VMI().DeletionTimestamp, "that was about another instance")
		require.Empty(t, w.VM().StateChangeRequests)
		w.Ask(stop(w.UID(2)))
	})
	w.at(5*time.Minute+time.Second, func() { w.status(t, "Stopping"); w.RemoveVMI() })
	w.at(6*time.Minute, func() { w.status(t, "Stopped"); require.Empty(t, w.VM().StateChangeRequests) })
	w.deleteVM(time.Hour)
	w.run(t)
}

// TestStopRequestCancelsStart: the instance that it names is deleted, and the request removed.
func TestStopRequestCancelsStart(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Manual") })
	w.at(time.Second, func() { w.Ask(start) })
	w.at(2*time.Second, func() { require.Equal(t, 1, w.Instance()); w.Ask(stop(w.UID(1))) })
	w.at(3*time.Second, func() { require.NotNil(t, w.VMI().DeletionTimestamp); w.RemoveVMI() })
	w.at(time.Minute, func() {
		require.Nil(t, w.VMI())
		w.status(t, "Stopped")
		require.Empty(t, w.VM().StateChangeRequests)
	})
	w.deleteVM(time.Hour)
	w.run(t)
}

func TestPausedStart(t *testing.T) {
	for _, strategy := range []string{"Manual", "Halted"} {
		t.Run(strategy, func(t *testing.T) {
			w := newWorld(t)
			w.at(0, func() { w.CreateVM(strategy) })
			w.at(time.Second, func() {
				w.Ask(contract.StateChangeRequest{Action: "Start",
					Data: map[string]string{"paused": "true", contract.AnnotationRequestedBy: "bob"}})
			})
			w.at(2*time.Second, func() {
				require.NotNil(t, w.VMI())
				require.True(t, w.StartsPaused())
				require.Equal(t, strategy == "Halted", w.VM().RunStrategy == "Always",
					"a halted VM becomes one that runs")
				require.Equal(t, strategy == "Halted", w.VM().Actor == "bob", "and the requester is its actor")
				w.SetPhase("Running")
			})
			w.at(3*time.Second, func() { require.Empty(t, w.VM().StateChangeRequests) })
			w.deleteVM(time.Minute)
			w.run(t)
		})
	}
}

func TestShowsRestartRequiredUntilRestart(t *testing.T) {
	w := newWorld(t)
	const message = "a non-live-updatable field was changed in the template spec: domain.cpu.cores"
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running") })
	w.at(2*time.Second, func() {
		require.Zero(t, w.Count(contract.ActivitySyncInstance))
		w.SetStrategy("RerunOnFailure")
	})
	w.at(3*time.Second, func() {
		require.Equal(t, 1, w.Count(contract.ActivitySyncInstance))
		require.EqualValues(t, 2, w.VMStatus.ObservedGeneration, "an edit that the instance need not follow converges")
		require.EqualValues(t, 2, w.VMStatus.DesiredGeneration)
		w.EditVM(cores)
	})
	w.at(4*time.Second, func() {
		require.Equal(t, message, w.condition("RestartRequired").Message)
		require.EqualValues(t, 2, w.VMStatus.ObservedGeneration)
		require.EqualValues(t, 3, w.VMStatus.DesiredGeneration)
		w.Ask(stop(w.UID(1)), start)
	})
	w.at(5*time.Second, func() { require.NotNil(t, w.VMI().DeletionTimestamp); w.RemoveVMI() })
	w.at(6*time.Second, func() {
		require.Equal(t, 2, w.Instance())
		w.SetPhase("Running")
	})
	w.at(time.Hour, func() {
		require.Empty(t, w.condition("RestartRequired").Type)
		require.EqualValues(t, 3, w.VMStatus.ObservedGeneration)
		require.Equal(t, 2, w.Count(contract.ActivitySyncInstance),
			"one look for each generation, none where nothing changed")
	})
	w.deleteVM(2 * time.Hour)
	w.run(t)
}

func TestStopDoesNotSyncInstance(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running") })
	w.at(2*time.Second, func() { w.SetStrategy("Halted") })
	w.at(3*time.Second, func() { w.RemoveVMI() })
	w.at(4*time.Second, func() { w.status(t, "Stopped"); require.Zero(t, w.Count(contract.ActivitySyncInstance)) })
	w.deleteVM(time.Minute)
	w.run(t)
}

// TestOrphanedInstanceStays: a VM that is deleted with its dependents orphaned is gone at once. Its instance stays,
// whether it runs or still starts.
func TestOrphanedInstanceStays(t *testing.T) {
	for name, phase := range map[string]string{"up": "Running", "on its way": "Scheduling"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.at(0, func() { w.CreateVM("Always") })
			w.at(time.Second, func() { w.SetPhase(phase) })
			w.at(2*time.Second, func() {
				w.EditVM(func(vm *kubevirt.VirtualMachine) { vm.Finalizers = append(vm.Finalizers, "orphan") })
				w.DeleteVM()
			})
			w.at(3*time.Second, func() {
				require.Equal(t, []string{"orphan"}, w.VM().Finalizers)
				require.Nil(t, w.VMI().DeletionTimestamp)
				require.Zero(t, w.Count(contract.ActivityDeleteVMI))
				w.Disown() // the garbage collector's part
				w.EditVM(func(vm *kubevirt.VirtualMachine) { vm.Finalizers = nil })
			})
			w.run(t)
			require.NotNil(t, w.VMI())
			require.Nil(t, w.VMI().DeletionTimestamp)
		})
	}
}

// TestOrphanedInstanceStaysWithoutObservation: the garbage collector was done before the VM's orphan finalizer was
// observed.
func TestOrphanedInstanceStaysWithoutObservation(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running") })
	w.at(2*time.Second, func() {
		w.Unseen(w.Disown)
		w.DeleteVM()
	})
	w.at(3*time.Second, func() { require.Nil(t, w.VM(), "it has gone at once") })
	w.run(t)
	require.NotNil(t, w.VMI())
	require.Nil(t, w.VMI().DeletionTimestamp)
	require.Equal(t, 1, w.Count(contract.ActivityDeleteVMI), "calls: %v", w.Calls)
}

// A deletion writes the status once, whatever happens to the instance meanwhile; a stop writes it twice.
func TestDeletionWritesStatusOnce(t *testing.T) {
	ready := func(reason string) func(*kubevirt.VirtualMachineInstance) {
		return func(vmi *kubevirt.VirtualMachineInstance) {
			vmi.Status.Conditions = []kubevirt.VirtualMachineInstanceCondition{
				{Type: "Ready", Status: "False", Reason: reason}}
		}
	}
	going := func(w *world, from time.Duration) {
		for i, reason := range []string{"PodTerminating", "GuestNotRunning", "PodNotExists"} {
			w.at(from+time.Duration(i)*time.Second, func() {
				w.EditVMI(ready(reason))
			})
		}
		w.at(from+20*time.Second, func() { w.SetPhase("Succeeded") })
		w.at(from+21*time.Second, func() { w.RemoveVMI() })
	}
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running") })
	before := 0
	// A quick stop first.
	w.at(1100*time.Millisecond, func() { before = w.Count(contract.ActivityPatchVM); w.SetStrategy("Halted") })
	w.at(1200*time.Millisecond, func() { w.EditVMI(ready("PodTerminating")) })
	w.at(1300*time.Millisecond, func() { w.SetPhase("Succeeded") })
	w.at(1400*time.Millisecond, func() { w.RemoveVMI() })
	w.at(1500*time.Millisecond, func() {
		w.status(t, "Stopped")
		require.Equal(t, 2, w.Count(contract.ActivityPatchVM)-before, "Stopping and Stopped: %v", w.Calls)
		w.SetStrategy("Always")
	})
	w.at(1600*time.Millisecond, func() { w.SetPhase("Running") })
	// A slow one.
	w.at(2*time.Second, func() { before = w.Count(contract.ActivityPatchVM); w.SetStrategy("Halted") })
	going(w, 3*time.Second)
	w.at(30*time.Second, func() {
		w.status(t, "Stopped")
		require.Equal(t, 3, w.Count(contract.ActivityPatchVM)-before,
			"Stopping, after a while that it is not ready, and Stopped: %v", w.Calls)
		w.SetStrategy("Always")
	})
	w.at(31*time.Second, func() { w.SetPhase("Running") })
	deletes := 0
	w.at(32*time.Second, func() {
		before, deletes = w.Count(contract.ActivityPatchVM), w.Count(contract.ActivityDeleteVMI)
		w.DeleteVM()
	})
	w.at(33*time.Second, func() { w.status(t, "Terminating") })
	going(w, 34*time.Second)
	w.run(t)
	require.Equal(t, 2, w.Count(contract.ActivityPatchVM)-before, "Terminating, and the release: %v", w.Calls)
	require.Equal(t, 1, w.Count(contract.ActivityDeleteVMI)-deletes)
}

// TestDeletingStoppedVMWritesNoStatus: it is gone with the next request.
func TestDeletingStoppedVMWritesNoStatus(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running"); w.SetStrategy("Halted") })
	w.at(2*time.Second, func() { w.RemoveVMI() })
	before := 0
	w.at(3*time.Second, func() { before = len(w.Calls); w.DeleteVM() })
	w.run(t)
	require.Equal(t, []string{contract.ActivityPatchVM}, w.Calls[before:])
}

// TestDeletesVMOlderThanItsWorkflow: the workflow knows only the object of such a VM.
func TestDeletesVMOlderThanItsWorkflow(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() {
		w.Unseen(func() {
			w.CreateVM("Always")
			w.CreateVMI(w.OwnedByVM)
			w.SetPhase("Running")
		})
		w.DeleteVM()
	})
	w.at(time.Second, func() { require.NotNil(t, w.VMI().DeletionTimestamp, "found by its owner"); w.RemoveVMI() })
	w.run(t)
}

// TestLateStartIsNotRepeated: after its deadline the reason is shown and stays, and there is no second attempt.
func TestLateStartIsNotRepeated(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(24*time.Hour, func() {
		require.Equal(t, []string{"start/1"}, w.transitions)
		require.Equal(t, "TransitionDeadlineExceeded", w.condition("Failure").Reason)
		w.status(t, "Starting")
	})
	w.deleteVM(25 * time.Hour)
	w.run(t)
}

// TestLateStopIsRepeatedSlowly: some six times an hour, not as fast as it fails.
func TestLateStopIsRepeatedSlowly(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() {
		w.SetPhase("Running")
		w.CreatePod()
		w.RunPod()
	})
	w.at(time.Minute, func() { w.DeleteVM() })
	w.at(time.Minute+time.Second, w.AskPodToEnd)
	w.at(2*time.Hour, func() {
		require.Equal(t, "TransitionDeadlineExceeded", w.condition("Failure").Reason)
		require.LessOrEqual(t, w.Count(contract.ActivityDeleteVMI), 12)
		require.GreaterOrEqual(t, w.Count(contract.ActivityDeleteVMI), 4)
		w.RemoveVMI()
	})
	w.run(t)
}

// TestFindsMissedEndAtDeadline: at its deadline the deletion finds the end that was not observed.
func TestFindsMissedEndAtDeadline(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running") })
	w.at(time.Minute, func() { w.DeleteVM() })
	w.at(2*time.Minute, func() { w.Unseen(w.RemoveVMI) })
	w.at(6*time.Minute, func() { require.Nil(t, w.VM()) })
	w.run(t)
	require.Equal(t, 1, w.Count(contract.ActivityDeleteVMI))
}

// With run strategy Once a guest starts again only after the deletion of its instance, and without delay.
func TestOnceStartsAgainOnlyAfterDeletion(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Once") })
	w.at(time.Second, func() { w.SetPhase("Failed") })
	w.at(time.Minute, func() {
		w.status(t, "CrashLoopBackOff")
		require.Nil(t, w.VMI().DeletionTimestamp)
		w.Ask(stop(w.UID(1)))
	})
	w.at(2*time.Minute, func() {
		require.Nil(t, w.VMI().DeletionTimestamp, "a stop request means nothing here")
		w.VanishVMI()
	})
	w.at(2*time.Minute+time.Second, func() { require.Equal(t, 2, w.Instance()) })
	w.deleteVM(time.Hour)
	w.run(t)
}

// TestShowsContradictoryFields: a spec that admission refuses is not applied, and the VM shows that.
func TestShowsContradictoryFields(t *testing.T) {
	for strategy, want := range map[string]contract.Condition{
		"Contradictory": {Reason: "FailedCreate", Message: "running and runstrategy are mutually exclusive"},
		"Sometimes":     {Reason: "FailedCreate", Message: "unknown runstrategy: Sometimes"},
	} {
		t.Run(strategy, func(t *testing.T) {
			w := newWorld(t)
			w.at(0, func() { w.CreateVM(strategy) })
			w.at(time.Second, func() {
				c := w.condition("Failure")
				require.Equal(t, want, contract.Condition{Reason: c.Reason, Message: c.Message})
				w.SetStrategy("Always")
			})
			w.at(2*time.Second, func() { require.NotNil(t, w.VMI()); require.Empty(t, w.condition("Failure").Type) })
			w.deleteVM(time.Minute)
			w.run(t)
		})
	}
}
