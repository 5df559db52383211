package vm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/contract"
)

func TestAnInstanceThatIsGoneDoesNotComeBack(t *testing.T) {
	s := State{Object: contract.Object{UID: "vm"}, VM: &contract.VMObservation{UID: "vm"}}
	s.observeVMI(contract.VMIObservation{UID: "a", ResourceVersion: "10", OwnerUID: "vm"})
	s.observeVMI(contract.VMIObservation{UID: "b", ResourceVersion: "30", OwnerUID: "vm"})
	s.observeVMI(contract.VMIObservation{UID: "b", Gone: true})
	s.observeVMI(contract.VMIObservation{UID: "a", ResourceVersion: "20", OwnerUID: "vm"})
	require.Equal(t, runstrategy.Absent, s.situation(), "an old observation arrived late")
	s.observeVMI(contract.VMIObservation{UID: "c", ResourceVersion: "40", OwnerUID: "vm"})
	require.Equal(t, runstrategy.Alive, s.situation())
}

func TestANewerObjectProvesThatTheOldOneIsGone(t *testing.T) {
	s := State{}
	s.observeVM(contract.VMObservation{UID: "old", ResourceVersion: "10"})
	s.observeVM(contract.VMObservation{UID: "new", ResourceVersion: "20"})
	require.True(t, s.VM.Gone)
	require.Equal(t, "new", s.next().Object.UID)
}

func TestAnotherVMsInstanceIsNotTakenUp(t *testing.T) {
	s := State{}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "5", OwnerUID: "old"})
	s.observeVM(contract.VMObservation{UID: "new", ResourceVersion: "10"})
	require.Equal(t, runstrategy.Absent, s.situation())
}

func TestAnEntityThatCameTooLateEnds(t *testing.T) {
	s := State{}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "5", OwnerUID: "vm"})
	require.Equal(t, actNone, s.decide(time.Time{}).Action, "its VirtualMachine may be observed next")
	s.observeVM(contract.VMObservation{UID: "vm", Gone: true})
	require.Equal(t, actFinish, s.decide(time.Time{}).Action)
	s.observeVM(contract.VMObservation{UID: "new", ResourceVersion: "9"})
	require.NotEqual(t, actFinish, s.decide(time.Time{}).Action)
}

// TestWhoIsBehindARequest: the user whom the subresources API wrote into it, and not whoever changed the object before.
func TestWhoIsBehindARequest(t *testing.T) {
	start := contract.StateChangeRequest{Action: "Start", Data: map[string]string{contract.AnnotationRequestedBy: "jane"}}
	for name, c := range map[string]struct {
		requests []contract.StateChangeRequest
		want     string
	}{
		"none":             {nil, "bob"},
		"jane's":           {[]contract.StateChangeRequest{start}, "jane"},
		"nobody's":         {[]contract.StateChangeRequest{{Action: "Start"}}, "bob"},
		"one that was met": {[]contract.StateChangeRequest{{Action: "Stop", UID: "old"}, start}, "jane"},
	} {
		s := State{VM: &contract.VMObservation{UID: "u", Actor: "bob", StateChangeRequests: c.requests}}
		require.Equal(t, c.want, s.actor(), name)
	}
}
