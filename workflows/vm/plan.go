package vm

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

type (
	action   = entity.Action
	decision = entity.Decision
)

// Steps. Metrics have these names as a label, and the state keeps that of a failed step.
const (
	actFinalizer       = action("add the finalizer")
	actSignal          = action("signal the progress of the instance")
	actRerun           = action("request another start")
	actSync            = action("let the instance follow its VirtualMachine")
	actSetAlways       = action("set the run strategy to Always")
	actRemoveFinalizer = action("remove the finalizer of the VirtualMachine")
	actDataVolumes     = action("create the DataVolumes")
)

// isVMWrite reports whether a step writes to the VM, with the last observed resourceVersion as its lock.
func isVMWrite(a action) bool {
	switch a {
	case actFinalizer, actRerun, actSetAlways, entity.ActWrite, actRemoveFinalizer:
		return true
	default:
		return false
	}
}

// decide is the planner: pure and total.
func (s *State) decide(now time.Time) decision {
	return s.openTransition().Decide(now, s.decideByUrgency)
}

// decideByUrgency returns the most urgent step.
func (s *State) decideByUrgency(now time.Time) decision {
	if s.VM == nil {
		if s.VMI != nil && s.VMI.Gone {
			return decision{Action: entity.ActFinish, Why: "its instance is gone, and no VirtualMachine was observed"}
		}
		if s.NeverSeen {
			return decision{Action: entity.ActFinish, Why: "the VirtualMachine was gone before it was observed"}
		}
		if s.VMI != nil && s.VMI.OwnerUID != "" {
			return s.withBackoff(decision{Action: entity.ActRead,
				Why: "the entity knows an instance, and not its VirtualMachine"}, now)
		}
		return decision{Waiting: waits.For(waits.FirstObservation, "the VirtualMachine")}
	}
	if s.Stale && !s.VM.Gone {
		return s.withBackoff(decision{Action: entity.ActRead,
			Why: "the known state may be incomplete or outdated"}, now)
	}
	if s.Open != nil && s.Open.Undone && !s.Open.Cancelled {
		return decision{Action: entity.ActCancel, Why: "its effect was undone, or has not happened yet"}
	}
	if d, ok := s.decideSignal(); ok {
		return d
	}
	if s.isDeleting() {
		return s.withBackoff(s.decideEnding(now), now)
	}
	if !s.hasFinalizer() {
		return s.withBackoff(decision{Action: actFinalizer, Why: "its instance must be gone before it"}, now)
	}
	want, known := s.desiredAction()
	if !known {
		_, why := runstrategy.Unserved(s.strategy())
		return s.withBackoff(s.decideStatus(now).Or(waits.For(waits.RunStrategy, why)), now)
	}
	return s.withBackoff(s.decideTransition(want, now), now)
}

// decideSignal signals the instance's progress to the open transition.
func (s *State) decideSignal() (decision, bool) {
	if s.Open == nil || s.Open.Cancelled {
		return decision{}, false
	}
	m := s.progress()
	if m.State == contract.ProgressOrphaned && m != s.Open.Reported {
		return decision{Action: actSignal, Why: "the VirtualMachine is deleted without its instance"}, true
	}
	if s.Open.Operation == contract.OperationStop && m.State != contract.ProgressAbsent {
		return decision{}, false
	}
	if m != (contract.InstanceProgress{}) && m != s.Open.Reported {
		return decision{Action: actSignal, Why: "the instance is " + string(m.State)}, true
	}
	return decision{}, false
}

// decideTransition opens the transition that is desired, or cancels one that no longer is.
func (s *State) decideTransition(want runstrategy.Action, now time.Time) decision {
	volumes, ok := s.decideDataVolumes(want, now)
	switch {
	case s.Open != nil && s.Open.CancelReason != "":
		return s.cancelOpen(s.Open.CancelReason, now)
	case s.Open != nil && s.isOvertaken(want):
		return s.cancelOpen("superseded: "+want.Why, now)
	case s.Open != nil && !s.isOpenWanted():
		return s.cancelOpen("superseded: run strategy "+s.VM.RunStrategy, now)
	case s.Open != nil && s.isOutdated():
		return decision{Action: actSync, Why: "the VirtualMachine has changed since its instance was made"}
	case s.Open != nil:
		return s.decideStatus(now).Or(waits.For(waits.Transition, s.Open.Operation))
	case want.Always:
		return s.guardTransition(decision{Action: actSetAlways, Why: want.Why}, now)
	case want.Rerun:
		return decision{Action: actRerun, Why: want.Why}
	case ok && want.Operation != contract.OperationNone:
		return volumes
	case want.Operation == contract.OperationStart && want.AfterBackOff && s.isBackingOff(now):
		d := s.decideStatus(now)
		if d.Action == entity.ActNone {
			d.WakeAt = *s.StartFailure.RetryAfter
			d.Waiting = waits.For(waits.StartBackoff)
		}
		return d
	case want.Operation != contract.OperationNone:
		return s.guardTransition(decision{Action: entity.ActOpen, Operation: want.Operation, Why: want.Why}, now)
	case s.isOutdated():
		return decision{Action: actSync, Why: "the VirtualMachine has changed since its instance was made"}
	case ok:
		return volumes
	default:
		return s.decideStatus(now).Or(s.waiting())
	}
}

// waiting returns what a VM waits for whose run strategy asks for nothing, for people.
func (s *State) waiting() waits.Wait {
	switch {
	case s.situation() == runstrategy.Deleting:
		return waits.For(waits.InstanceGone)
	case s.situation() == runstrategy.Alive && !s.isRunning():
		return waits.For(waits.InstanceRunning, s.VMI.Phase)
	default:
		return waits.For(waits.Nothing, "this is what the run strategy asks for")
	}
}

// desiredAction returns what the VM asks for now. Known is false for an unsupported strategy.
func (s *State) desiredAction() (want runstrategy.Action, known bool) {
	return runstrategy.Desired(s.VM, s.VMI, s.RunStrategy)
}

// isOvertaken reports whether a request is about the instance that the open transition has made.
func (s *State) isOvertaken(want runstrategy.Action) bool {
	if s.VMI == nil || s.Open.VMI == s.VMI.UID {
		return false
	}
	asked := s.request() == runstrategy.StopRequest && s.situation() == runstrategy.Alive
	return want.Operation == contract.OperationRestart || want.Operation == contract.OperationStop && asked
}

// isOutdated reports whether the VM has changed since its instance was made, and the two were not compared since.
func (s *State) isOutdated() bool {
	if s.situation() != runstrategy.Alive || s.VM.Generation <= s.VMI.VMGeneration {
		return false
	}
	if s.Open != nil && (s.Open.Cancelled || !s.isMakingInstance()) {
		return false
	}
	return s.Checked == nil || s.Checked.VMI != s.VMI.UID || s.Checked.Generation < s.VM.Generation
}

// isOpenWanted reports whether the open transition still leads to what the strategy asks for.
func (s *State) isOpenWanted() bool {
	up := s.Open.Operation == contract.OperationStart || s.Open.Operation == contract.OperationRestart
	switch s.strategy() {
	case runstrategy.Halted:
		return !up
	default:
		return true
	}
}

func (s *State) cancelOpen(why string, now time.Time) decision {
	if s.Open.Cancelled {
		return s.decideStatus(now).Or(waits.For(waits.Compensation, s.Open.Operation))
	}
	return decision{Action: entity.ActCancel, Why: why}
}

// withBackoff replaces a step that has failed by a wait until its next attempt is due. The status shows the failure
// meanwhile.
func (s *State) withBackoff(d decision, now time.Time) decision {
	if f := s.Failure.OfConflict(); f != nil && isVMWrite(d.Action) && now.Before(f.RetryAt) {
		return f.Wait()
	}
	status := s.decideStatus
	if s.VM == nil || s.Stale || d.Action == actRemoveFinalizer {
		status = nil
	}
	return s.Failure.WithBackoff(d, now, status)
}

// settleTime is how long a status is not written that is about to change again by itself: an instance that has ended
// and is being deleted is gone within a moment. A slow deletion is written.
const settleTime = 5 * time.Second

// settleBy returns until when a differing status is not written (zero: it is written now).
func (s *State) settleBy() time.Time {
	if s.Open == nil || s.Open.Operation == contract.OperationStart || s.Written == nil ||
		s.situation() != runstrategy.Deleting {
		return time.Time{}
	}
	switch {
	case s.hasNoLiveInstance():
		return s.Ended.At.Add(settleTime)
	case s.Written.PrintableStatus == "Stopping":
		return s.Open.Since.Add(settleTime) // Stopping implies that it is no longer ready
	default:
		return time.Time{}
	}
}

func (s *State) decideStatus(now time.Time) decision {
	if s.VM.Gone || !s.needsWrite() {
		return decision{}
	}
	if s.isDeleting() && s.Terminating && s.Failure == nil &&
		(s.hasFinalizer() || len(s.VM.Finalizers) == 0 || !s.HasChange(contract.ChangeAfterFirst)) {
		// The status already shows the deletion. The next change is the VM's end, unless it has foreign finalizers.
		return decision{}
	}
	if by := s.settleBy(); now.Before(by) {
		return decision{WakeAt: by}
	}
	return decision{Action: entity.ActWrite, Why: "the status differs from the written one"}
}

func (s *State) hasFinalizer() bool { return slices.Contains(s.VM.Finalizers, contract.FinalizerVM) }
