package vm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// deletingState returns the state of a VM that is being deleted, with an instance.
func deletingState(at time.Time) State {
	return State{
		Object: contract.Object{UID: "vm"},
		VM: &contract.VMObservation{UID: "vm", ResourceVersion: "10", RunStrategy: "Always", DeletionTimestamp: &at,
			Finalizers: []string{contract.FinalizerVM}},
		VMI:         &contract.VMIObservation{UID: "i", ResourceVersion: "8", Phase: "Running", OwnerUID: "vm"},
		Terminating: true,
	}
}

// endRequestedState returns the same after the end of that instance was requested.
func endRequestedState(at time.Time, uid string) State {
	s := deletingState(at)
	s.Ending = &Ending{VMI: uid, RequestedAt: at}
	s.Ending.Operation, s.Ending.Since, s.Ending.Deadline = contract.OperationStop, at, at.Add(time.Minute)
	s.RecordOpened(&s.Ending.Transition)
	return s
}

// The deletion of a VM deletes its instance once for each instance, and again if that is undone.
func TestDeletingVMDeletesInstanceOnce(t *testing.T) {
	at := time.Unix(1000, 0)
	fresh := deletingState(at)
	fresh.refresh(at)
	require.Equal(t, actDeleteInstance, fresh.decide(at).Action)

	s := endRequestedState(at, "i")
	s.refresh(at)
	d := s.decide(at)
	require.Equal(t, entity.ActNone, d.Action)
	require.Equal(t, s.Ending.Deadline, d.WakeAt, "no wait is without end")

	another := endRequestedState(at, "before")
	another.refresh(at)
	require.Equal(t, actDeleteInstance, another.decide(at).Action, "another instance")

	back := endRequestedState(at, "i")
	back.applyRead(contract.ReadVMResult{VM: back.VM, VMI: back.VMI})
	back.refresh(at)
	require.Equal(t, actDeleteInstance, back.decide(at).Action, "etcd was put back: its deletion is undone")

	s.observeVMI(contract.VMIObservation{UID: "i", Gone: true})
	s.refresh(at.Add(5 * time.Second))
	require.Nil(t, s.Ending)
	require.Equal(t, actRemoveFinalizer, s.decide(at).Action)
	require.Equal(t, []contract.OperationRecord{{Operation: contract.OperationStop, Since: at,
		Until: at.Add(5 * time.Second), Outcome: entity.OutcomeDone, Attempts: 1}}, s.Records)
}

// TestDeletingVMDeletesUnknownInstance: the first observation of it may be that it is gone.
func TestDeletingVMDeletesUnknownInstance(t *testing.T) {
	at := time.Unix(1000, 0)
	s := endRequestedState(at, "")
	s.VMI = nil
	s.refresh(at)
	require.Equal(t, entity.ActNone, s.decide(at).Action)
	s.observeVMI(contract.VMIObservation{UID: "i", Gone: true})
	s.refresh(at)
	require.Equal(t, actRemoveFinalizer, s.decide(at).Action)
}

// An instance that is not gone in time is shown, and the VM requests its end again after a back-off, whether it is
// known or not.
func TestShowsInstanceThatIsNotGoneInTime(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, known := range []bool{true, false} {
		s := endRequestedState(at, "i")
		if !known {
			s.Ending.VMI, s.VMI = "", nil
		}
		late := s.Ending.Deadline
		s.refresh(late)
		require.Equal(t, actInspectInstance, s.decide(late).Action)
		s.noteLateEnd(late)
		require.Equal(t, reasonDeadline, s.Failure.Reason)
		require.Equal(t, "the instance is not gone after 1m0s", s.Failure.Message)
		require.Equal(t, s.Failure.Message, s.Records[0].Outcome)
		require.Equal(t, entity.ActWrite, s.decide(late).Action)
		status := s.status()
		s.Written = &status
		d := s.decide(late)
		require.Equal(t, entity.ActNone, d.Action)
		require.Equal(t, late.Add(lateStopPause), d.WakeAt)
		s.refresh(d.WakeAt)
		require.Equal(t, actDeleteInstance, s.decide(d.WakeAt).Action)
	}
}

// The record of an ending is closed also where the answer to its request was lost, and where a user removes the VM's
// finalizer meanwhile.
func TestClosesRecordOfEnding(t *testing.T) {
	at := time.Unix(1000, 0)
	unanswered := endRequestedState(at, "i")
	unanswered.Ending.RequestedAt = time.Time{}
	unanswered.observeVMI(contract.VMIObservation{UID: "i", Gone: true})
	unanswered.refresh(at.Add(time.Second))
	require.Nil(t, unanswered.Ending)
	require.Equal(t, entity.OutcomeDone, unanswered.Records[0].Outcome)

	undone := endRequestedState(at, "i")
	undone.applyRead(contract.ReadVMResult{VM: undone.VM, VMI: undone.VMI})
	undone.refresh(at.Add(time.Second))
	require.Equal(t, "its outcome is unknown, or it was undone", undone.Records[0].Outcome)

	goneFirst := endRequestedState(at, "i")
	goneFirst.VM.Gone = true
	goneFirst.refresh(at.Add(time.Second))
	require.Nil(t, goneFirst.Ending)
	require.Equal(t, "the VirtualMachine was gone before its instance", goneFirst.Records[0].Outcome)
}
