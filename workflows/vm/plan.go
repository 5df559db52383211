package vm

import (
	"time"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

type (
	action   = entity.Action
	decision = entity.Decision
)

// Steps.
const (
	actFinalizer       = action("add the finalizer")
	actSignal          = action("signal the progress of the instance")
	actRerun           = action("request another start")
	actSync            = action("let the instance follow its VirtualMachine")
	actSetAlways       = action("set the run strategy to Always")
	actRemoveFinalizer = action("remove the finalizer of the VirtualMachine")
	actDataVolumes     = action("create the DataVolumes")
)

// writes says that a step writes to the VM, locked by what was seen of it last.
func writes(a action) bool {
	switch a {
	case actFinalizer, actRerun, actSetAlways, entity.ActWrite, actRemoveFinalizer:
		return true
	default:
		return false
	}
}

// decide is the planner: pure and total.
func (s *State) decide(now time.Time) decision { return s.open().Decide(now, s.urgent) }

// urgent is the planner in order of urgency.
func (s *State) urgent(now time.Time) decision {
	if s.VM == nil {
		if s.VMI != nil && s.VMI.Gone {
			return decision{Action: entity.ActFinish, Why: "its instance is gone, and no VirtualMachine was seen"}
		}
		if s.Missed {
			return decision{Action: entity.ActFinish, Why: "the VirtualMachine was gone before it was seen"}
		}
		if s.VMI != nil && s.VMI.OwnerUID != "" {
			return s.held(decision{Action: entity.ActRead,
				Why: "its instance has started it, and it does not know the VirtualMachine"}, now)
		}
		return decision{Waiting: "the first observation of the VirtualMachine"}
	}
	if s.Stale && !s.VM.Gone {
		return s.held(decision{Action: entity.ActRead, Why: "it may know less than there is, or something older"}, now)
	}
	if s.Open != nil && s.Open.Undone && !s.Open.Cancelled {
		return decision{Action: entity.ActCancel, Why: "what it did is undone, or not done yet"}
	}
	if d, ok := s.decideSignal(); ok {
		return d
	}
	if s.deleting() {
		return s.held(s.decideEnding(now), now)
	}
	if !s.hasFinalizer() {
		return s.held(decision{Action: actFinalizer, Why: "its instance must go before it does"}, now)
	}
	want, known := s.desired()
	if !known {
		_, why := runstrategy.Unserved(s.strategy())
		return s.held(s.decideStatus(now).Or("another run strategy: "+why), now)
	}
	return s.held(s.decideTransition(want, now), now)
}

// decideSignal keeps an open transition informed.
func (s *State) decideSignal() (decision, bool) {
	if s.Open == nil || s.Open.Cancelled {
		return decision{}, false
	}
	m := s.progress()
	if m.State == contract.ProgressOrphaned && m != s.Open.Reported {
		return decision{Action: actSignal, Why: "the VirtualMachine goes, and its instance is to stay"}, true
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
		return s.cancel(s.Open.CancelReason, now)
	case s.Open != nil && s.overtaken(want):
		return s.cancel("superseded: "+want.Why, now)
	case s.Open != nil && !s.wanted():
		return s.cancel("superseded: run strategy "+s.VM.RunStrategy, now)
	case s.Open != nil && s.outdated():
		return decision{Action: actSync, Why: "the VirtualMachine has changed since its instance was made"}
	case s.Open != nil:
		return s.decideStatus(now).Or("the " + string(s.Open.Operation) + " transition")
	case want.Always:
		return s.guard(decision{Action: actSetAlways, Why: want.Why}, now)
	case want.Rerun:
		return decision{Action: actRerun, Why: want.Why}
	case ok && want.Operation != contract.OperationNone:
		return volumes
	case want.Operation == contract.OperationStart && want.AfterBackOff && s.backingOff(now):
		d := s.decideStatus(now)
		if d.Action == entity.ActNone {
			d.WakeAt = *s.StartFailure.RetryAfter
			d.Waiting = "the back-off after an instance that never ran"
		}
		return d
	case want.Operation != contract.OperationNone:
		return s.guard(decision{Action: entity.ActOpen, Operation: want.Operation, Why: want.Why}, now)
	case s.outdated():
		return decision{Action: actSync, Why: "the VirtualMachine has changed since its instance was made"}
	case ok:
		return volumes
	default:
		return s.decideStatus(now).Or(s.rest())
	}
}

// rest says in words what a VM waits for whose run strategy asks for nothing.
func (s *State) rest() string {
	switch {
	case s.situation() == runstrategy.Deleting:
		return "its instance to be gone"
	case s.situation() == runstrategy.Alive && !s.running():
		return "its instance to run: it is " + s.VMI.Phase
	default:
		return "nothing: this is what the run strategy asks for"
	}
}

// desired is what the VM asks for now. known is false for a strategy that nothing is done about.
func (s *State) desired() (want runstrategy.Action, known bool) {
	return runstrategy.Desired(s.VM, s.VMI, s.RunStrategy)
}

// overtaken says that a request is about the instance that the open transition has made.
func (s *State) overtaken(want runstrategy.Action) bool {
	if s.VMI == nil || s.Open.VMI == s.VMI.UID {
		return false
	}
	asked := s.request() == runstrategy.StopRequest && s.situation() == runstrategy.Alive
	return want.Operation == contract.OperationRestart || want.Operation == contract.OperationStop && asked
}

// outdated says that the VM has changed since its instance was made, and that nobody has looked yet what follows from
// that.
func (s *State) outdated() bool {
	if s.situation() != runstrategy.Alive || s.VM.Generation <= s.VMI.VMGeneration {
		return false
	}
	if s.Open != nil && (s.Open.Cancelled || !s.startsAnother()) {
		return false
	}
	return s.Checked == nil || s.Checked.VMI != s.VMI.UID || s.Checked.Generation < s.VM.Generation
}

// wanted says whether the open transition still leads where the strategy wants to be.
func (s *State) wanted() bool {
	up := s.Open.Operation == contract.OperationStart || s.Open.Operation == contract.OperationRestart
	switch s.strategy() {
	case runstrategy.Halted:
		return !up
	default:
		return true
	}
}

func (s *State) cancel(why string, now time.Time) decision {
	if s.Open.Cancelled {
		return s.decideStatus(now).Or("the " + string(s.Open.Operation) + " transition to compensate")
	}
	return decision{Action: entity.ActCancel, Why: why}
}

// held keeps what failed from being repeated before its time; meanwhile the status shows it.
func (s *State) held(d decision, now time.Time) decision {
	if f := s.Failure.Conflicting(); f != nil && writes(d.Action) && now.Before(f.RetryAt) {
		return f.Wait()
	}
	status := s.decideStatus
	if s.VM == nil || s.Stale || d.Action == actRemoveFinalizer {
		status = nil
	}
	return s.Failure.HoldBack(d, now, status)
}

// settleTime is how long a status is not written that is about to change again by itself: an instance that has ended
// and is being deleted is gone in a moment. What takes longer shows.
const settleTime = 5 * time.Second

// settlesBy is until when the status is not written, although it differs (zero: it is written).
func (s *State) settlesBy() time.Time {
	if s.Open == nil || s.Open.Operation == contract.OperationStart || s.Written == nil ||
		s.situation() != runstrategy.Deleting {
		return time.Time{}
	}
	switch {
	case s.over():
		return s.Ended.At.Add(settleTime)
	case s.Written.PrintableStatus == "Stopping":
		return s.Open.Since.Add(settleTime) // that it is no longer ready goes without saying
	default:
		return time.Time{}
	}
}

func (s *State) decideStatus(now time.Time) decision {
	if s.VM.Gone || !s.differs() {
		return decision{}
	}
	if s.deleting() && s.Terminating && s.Failure == nil {
		// That it goes is all that there is to say: its next change is its end.
		return decision{}
	}
	if by := s.settlesBy(); now.Before(by) {
		return decision{WakeAt: by}
	}
	return decision{Action: entity.ActWrite, Why: "it differs from what was written"}
}

func (s *State) hasFinalizer() bool {
	for _, f := range s.VM.Finalizers {
		if f == contract.FinalizerVM {
			return true
		}
	}
	return false
}
