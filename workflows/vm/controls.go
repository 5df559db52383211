package vm

import (
	"errors"
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/entity"
)

// subject returns the VM as the shared controls and their messages name it.
func (s *State) subject() entity.Subject {
	return entity.Subject{
		Manual: &s.Manual, Kind: "VirtualMachine", Name: "VM", Follows: "run strategy",
		Seen: func() bool { return s.VM != nil }, Deleting: s.isDeleting, Open: s.openTransition,
	}
}

// controls returns the controls of a VM entity.
func (e *instance) controls() []entity.Control {
	s := &e.state
	approved := func() (int64, string) { return s.VM.Generation, s.instanceUID() }
	return append(s.subject().Controls(),
		entity.RetryNow(&s.Failure, s.hasStartBackOff, s.endStartBackOff), entity.Approve(&s.Manual,
			approved), entity.Repair(e.loop, s, checkRepair))
}

// checkRepair refuses a corrected state that is not about the same object, or has an instance of another owner.
func checkRepair(was, now *State) error {
	if now.VMI != nil && !hasSameOwner(was, now) {
		return errors.New("vmi: must be null or have the same owner as before")
	}
	return entity.SameObject(was.identity(), now.identity())
}

func (s *State) identity() entity.Identity[contract.VMObservation] {
	return entity.Identity[contract.VMObservation]{
		Field: "vm", Kind: "VirtualMachine", Object: s.Object, Seen: s.VM, Next: s.Next, Open: s.Open != nil,
	}
}

// hasSameOwner reports whether the instance of the corrected state belongs to the same VM as before. A new one must
// belong to this VM.
func hasSameOwner(was, now *State) bool {
	if was.VMI == nil {
		return now.VMI.OwnerUID == now.Object.UID
	}
	return now.VMI.OwnerUID == was.VMI.OwnerUID
}

// hasStartBackOff reports whether the next start waits for a back-off.
func (s *State) hasStartBackOff() bool {
	return s.StartFailure != nil && s.StartFailure.RetryAfter != nil
}

// endStartBackOff ends the back-off of the next start.
func (s *State) endStartBackOff(now time.Time) {
	if s.StartFailure != nil {
		f := *s.StartFailure
		at := now.Truncate(time.Second)
		f.RetryAfter = &at
		s.StartFailure = &f
	}
}

// guardTransition delays a desired transition while the VM is held or waits for an approval.
func (s *State) guardTransition(d decision, now time.Time) decision {
	return s.subject().Guard(d, func() decision { return s.decideStatus(now) })
}

// needsApproval reports whether an operation needs an approval. Deleting an ended instance does not, since nothing is
// lost.
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

// instanceUID returns the UID of the instance, or "" if there is none.
func (s *State) instanceUID() string {
	if s.situation() == runstrategy.Absent {
		return ""
	}
	return s.VMI.UID
}

// showAwaitedApproval records which transition waits for an approval, so that it can be given.
func (s *State) showAwaitedApproval() {
	if s.VM == nil || s.isDeleting() || s.Open != nil || s.Hold != nil {
		s.AwaitApproval(contract.OperationNone, 0, "")
		return
	}
	want, _ := s.desiredAction()
	if !s.needsApproval(want.Operation) {
		want.Operation = contract.OperationNone
	}
	s.AwaitApproval(want.Operation, s.VM.Generation, s.instanceUID())
}
