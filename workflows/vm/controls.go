package vm

import (
	"errors"
	"slices"
	"time"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// subject is the VM as a person is spoken to about it.
func (s *State) subject() entity.Subject {
	return entity.Subject{
		Manual: &s.Manual, Kind: "VirtualMachine", Name: "VM", Follows: "run strategy",
		Seen: func() bool { return s.VM != nil }, Deleting: s.deleting, Open: s.open,
	}
}

// controls are what a person may ask of a VM entity.
func (e *instance) controls() []entity.Control {
	s := &e.state
	approved := func() (int64, string) { return s.VM.Generation, s.instanceUID() }
	return append(s.subject().Controls(),
		entity.RetryNow(&s.Failure, s.waitsToStart, s.startNow), entity.Approve(&s.Manual,
			approved), entity.Repair(e.loop, s, sound))
}

// sound refuses a corrected state that is about something else than the one it corrects.
func sound(was, now *State) error {
	if now.VMI != nil && !sameOwner(was, now) {
		return errors.New("vmi: belongs to somebody else than before; only null, or the same owner, is possible")
	}
	return entity.SameObject(was.identity(), now.identity())
}

func (s *State) identity() entity.Identity[contract.VMObservation] {
	return entity.Identity[contract.VMObservation]{
		Field: "vm", Kind: "VirtualMachine", Object: s.Object, Seen: s.VM, Next: s.Next, Open: s.Open != nil,
	}
}

// sameOwner says that the corrected state has no instance of another VM, and none that was made up for one.
func sameOwner(was, now *State) bool {
	if was.VMI == nil {
		return now.VMI.OwnerUID == now.Object.UID
	}
	return now.VMI.OwnerUID == was.VMI.OwnerUID
}

// waitsToStart says that the next start waits for a time.
func (s *State) waitsToStart() bool { return s.StartFailure != nil && s.StartFailure.RetryAfter != nil }

// startNow ends that wait.
func (s *State) startNow(now time.Time) {
	if s.StartFailure != nil {
		f := *s.StartFailure
		at := now.Truncate(time.Second)
		f.RetryAfter = &at
		s.StartFailure = &f
	}
}

// guard keeps a transition that the run strategy asks for from being opened while a person has the say.
func (s *State) guard(d decision, now time.Time) decision {
	return s.subject().Guard(d, func() decision { return s.decideStatus(now) })
}

// needsApproval: taking away an instance that has ended needs none, for nobody loses anything by it.
func (s *State) needsApproval(op contract.Operation) bool {
	listed := func(o contract.Operation) bool { return slices.Contains(s.VM.NeedsApproval, string(o)) }
	switch op {
	case contract.OperationStart:
		return listed(contract.OperationStart)
	case contract.OperationStop:
		return listed(contract.OperationStop) && s.situation() == runstrategy.Alive
	case contract.OperationRestart:
		return listed(contract.OperationStart) || listed(contract.OperationStop)
	default:
		return false
	}
}

// instanceUID is the UID of the instance, "" while there is none.
func (s *State) instanceUID() string {
	if s.situation() == runstrategy.Absent {
		return ""
	}
	return s.VMI.UID
}

// await notes which transition waits for approval, so that one can be given.
func (s *State) await() {
	if s.VM == nil || s.deleting() || s.Open != nil || s.Hold != nil {
		s.AwaitApproval(contract.OperationNone, 0, "")
		return
	}
	want, _ := s.desired()
	if !s.needsApproval(want.Operation) {
		want.Operation = contract.OperationNone
	}
	s.AwaitApproval(want.Operation, s.VM.Generation, s.instanceUID())
}
