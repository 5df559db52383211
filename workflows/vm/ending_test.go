package vm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// dying is the state of a VM that is being deleted, with an instance.
func dying(at time.Time) State {
	return State{
		Object: contract.Object{UID: "vm"},
		VM: &contract.VMObservation{UID: "vm", ResourceVersion: "10", RunStrategy: "Always", DeletionTimestamp: &at,
			Finalizers: []string{contract.FinalizerVM}},
		VMI:         &contract.VMIObservation{UID: "i", ResourceVersion: "8", Phase: "Running", OwnerUID: "vm"},
		Terminating: true,
	}
}

// asked is the same once the end of that instance was asked for.
func asked(at time.Time, uid string) State {
	s := dying(at)
	s.Ending = &Ending{VMI: uid, Asked: at}
	s.Ending.Operation, s.Ending.Since, s.Ending.Deadline = contract.OperationStop, at, at.Add(time.Minute)
	s.Opened(&s.Ending.Transition)
	return s
}

// TestTheEndOfAnInstanceWhoseVMGoes is asked for once for each instance, and again when it is undone.
func TestTheEndOfAnInstanceWhoseVMGoes(t *testing.T) {
	at := time.Unix(1000, 0)
	fresh := dying(at)
	fresh.refresh(at)
	require.Equal(t, actDeleteInstance, fresh.decide(at).Action)

	s := asked(at, "i")
	s.refresh(at)
	d := s.decide(at)
	require.Equal(t, entity.ActNone, d.Action)
	require.Equal(t, s.Ending.Deadline, d.WakeAt, "no wait is without end")

	another := asked(at, "before")
	another.refresh(at)
	require.Equal(t, actDeleteInstance, another.decide(at).Action, "another instance")

	back := asked(at, "i")
	back.read(contract.ReadVMResult{VM: back.VM, VMI: back.VMI})
	back.refresh(at)
	require.Equal(t, actDeleteInstance, back.decide(at).Action, "etcd was put back: its deletion is undone")

	s.observeVMI(contract.VMIObservation{UID: "i", Gone: true})
	s.refresh(at.Add(5 * time.Second))
	require.Nil(t, s.Ending)
	require.Equal(t, actRemoveFinalizer, s.decide(at).Action)
	require.Equal(t, []contract.OperationRecord{{Operation: contract.OperationStop, Since: at,
		Until: at.Add(5 * time.Second), Outcome: entity.OutcomeDone, Attempts: 1}}, s.Records)
}

// TestAnUnknownInstanceWhoseVMGoes: the first that is heard of it may be that it is gone.
func TestAnUnknownInstanceWhoseVMGoes(t *testing.T) {
	at := time.Unix(1000, 0)
	s := asked(at, "")
	s.VMI = nil
	s.refresh(at)
	require.Equal(t, entity.ActNone, s.decide(at).Action)
	s.observeVMI(contract.VMIObservation{UID: "i", Gone: true})
	s.refresh(at)
	require.Equal(t, actRemoveFinalizer, s.decide(at).Action)
}

// TestAnInstanceThatDoesNotGo in time shows, and its end is asked for again after a pause, whether it is known or not.
func TestAnInstanceThatDoesNotGo(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, known := range []bool{true, false} {
		s := asked(at, "i")
		if !known {
			s.Ending.VMI, s.VMI = "", nil
		}
		late := s.Ending.Deadline
		s.refresh(late)
		require.Equal(t, actInspectInstance, s.decide(late).Action)
		s.late(late)
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

// TestTheRecordOfAnEndIsClosed, whatever becomes of it: where the answer to its request was lost, and where somebody
// takes the VM's finalizer away meanwhile.
func TestTheRecordOfAnEndIsClosed(t *testing.T) {
	at := time.Unix(1000, 0)
	unanswered := asked(at, "i")
	unanswered.Ending.Asked = time.Time{}
	unanswered.observeVMI(contract.VMIObservation{UID: "i", Gone: true})
	unanswered.refresh(at.Add(time.Second))
	require.Nil(t, unanswered.Ending)
	require.Equal(t, entity.OutcomeDone, unanswered.Records[0].Outcome)

	undone := asked(at, "i")
	undone.read(contract.ReadVMResult{VM: undone.VM, VMI: undone.VMI})
	undone.refresh(at.Add(time.Second))
	require.Equal(t, "it is not known how it went, or it is undone", undone.Records[0].Outcome)

	alone := asked(at, "i")
	alone.VM.Gone = true
	alone.refresh(at.Add(time.Second))
	require.Nil(t, alone.Ending)
	require.Equal(t, "the VirtualMachine was gone before its instance", alone.Records[0].Outcome)
}
