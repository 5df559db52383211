package vm

import (
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// action names a step of this entity.
type action string

// Steps.
const (
	actNone      action = ""
	actFinish    action = "finish"
	actNext      action = "take up the newer object"
	actFinalizer action = "add the finalizer"
	actOpen      action = "open a transition"
	actCancel    action = "call off the transition"
	actTell      action = "tell the transition how far the instance is"
	actSetAlways action = "set the run strategy to Always"
	actWrite     action = "write the status"
	actLetGo     action = "release the VirtualMachine"
)

// decision is what the planner answers before it is bound to activities and children.
type decision struct {
	Action    action
	Operation contract.Operation // of actOpen
	Why       string
	WakeAt    time.Time
	Waiting   string
}

// decide is the planner: pure, total, and in order of urgency.
func (s *State) decide(now time.Time) decision {
	if s.VM == nil {
		if s.VMI != nil && s.VMI.Gone {
			return decision{Action: actFinish, Why: "its instance is gone, and no VirtualMachine was seen"}
		}
		return decision{Waiting: "the first observation of the VirtualMachine"}
	}
	if d, ok := s.decideTelling(); ok {
		return d
	}
	if s.deleting() {
		return s.held(s.decideEnding(), now)
	}
	if !s.hasFinalizer() {
		return s.held(decision{Action: actFinalizer, Why: "its instance must go before it does"}, now)
	}
	w, known := wish(Strategy(s.VM.RunStrategy), s.situation(), s.request())
	if !known {
		d := s.decideStatus()
		if d.Action == actNone {
			d.Waiting = "another run strategy: " + s.VM.RunStrategy + " is not supported yet"
		}
		return d
	}
	return s.held(s.decideWish(w, now), now)
}

// decideTelling keeps an open transition informed.
func (s *State) decideTelling() (decision, bool) {
	if s.Open == nil || s.Open.Cancelled {
		return decision{}, false
	}
	m := s.milestone()
	if s.Open.Operation == contract.OperationStop && m.State != contract.MilestoneAbsent {
		return decision{}, false
	}
	if m != (contract.Milestone{}) && m != s.Open.Told {
		return decision{Action: actTell, Why: "the instance is " + string(m.State)}, true
	}
	return decision{}, false
}

// decideEnding stops the instance, then lets the VM go.
func (s *State) decideEnding() decision {
	if s.Open != nil && s.Open.Operation != contract.OperationStop {
		return s.callOff("the VirtualMachine is being deleted")
	}
	if s.Open != nil {
		return s.or(s.decideStatus(), "the instance to be gone")
	}
	asked := s.Last != nil && s.Last.Error == ""
	if !s.VM.Gone && !s.orphaned() && (s.situation() != Absent || s.VMI == nil && !asked) {
		// An entity that knows of no instance yet still asks once: the object may be older than this workflow, or have been made by a
		// transition that failed.
		return decision{Action: actOpen, Operation: contract.OperationStop, Why: "the VirtualMachine is being deleted"}
	}
	if s.VM.Gone {
		if s.Next != nil {
			return decision{Action: actNext, Why: "an object of the same name and another UID exists"}
		}
		return decision{Action: actFinish, Why: "the VirtualMachine is gone"}
	}
	if s.hasFinalizer() {
		return decision{Action: actLetGo, Why: "its instance is gone"}
	}
	return decision{Waiting: "other finalizers of the VirtualMachine"}
}

// decideWish opens the transition that is wished for, or calls off one that no longer is.
func (s *State) decideWish(w Wish, now time.Time) decision {
	switch {
	case s.Open != nil && s.Open.CallOff != "":
		return s.callOff(s.Open.CallOff)
	case s.Open != nil && w.Operation == contract.OperationRestart && s.Open.VMI != s.VMI.UID:
		return s.callOff("a newer wish: " + w.Why)
	case s.Open != nil && !s.wanted():
		return s.callOff("a newer wish: run strategy " + s.VM.RunStrategy)
	case s.Open != nil:
		return s.or(s.decideStatus(), "the "+string(s.Open.Operation)+" transition")
	case w.Always:
		return s.guard(decision{Action: actSetAlways, Why: w.Why})
	case w.Operation == contract.OperationStart && s.backingOff(now):
		d := s.decideStatus()
		if d.Action == actNone {
			d.WakeAt = *s.StartFailure.RetryAfter
			d.Waiting = "the back-off after an instance that never ran"
		}
		return d
	case w.Operation != contract.OperationNone:
		return s.guard(decision{Action: actOpen, Operation: w.Operation, Why: w.Why})
	default:
		return s.or(s.decideStatus(), "nothing: this is what the run strategy asks for")
	}
}

// wanted says whether the open transition still leads where the strategy wants to be.
func (s *State) wanted() bool {
	up := s.Open.Operation == contract.OperationStart || s.Open.Operation == contract.OperationRestart
	switch Strategy(s.VM.RunStrategy) {
	case Halted:
		return !up
	default:
		return true
	}
}

func (s *State) callOff(why string) decision {
	if s.Open.Cancelled {
		return s.or(s.decideStatus(), "the "+string(s.Open.Operation)+" transition to unwind")
	}
	return decision{Action: actCancel, Why: why}
}

func (s *State) or(d decision, waiting string) decision {
	if d.Action == actNone {
		d.Waiting = waiting
	}
	return d
}

func (s *State) backingOff(now time.Time) bool {
	return s.StartFailure != nil && s.StartFailure.RetryAfter != nil && now.Before(*s.StartFailure.RetryAfter)
}

// held keeps what failed from being repeated before its time; meanwhile the status tells about it.
func (s *State) held(d decision, now time.Time) decision {
	if s.Failure == nil || d.Action == actNone || !now.Before(s.Failure.RetryAt) {
		return d
	}
	step := string(d.Action)
	if d.Action == actOpen {
		step = string(d.Operation)
	}
	if step != s.Failure.Step {
		return d
	}
	if d.Action != actWrite && d.Action != actLetGo {
		if st := s.decideStatus(); st.Action == actWrite {
			return st
		}
	}
	return decision{WakeAt: s.Failure.RetryAt, Waiting: "another attempt: " + s.Failure.Message}
}

func (s *State) decideStatus() decision {
	if s.VM.Gone || !s.differs() {
		return decision{}
	}
	return decision{Action: actWrite, Why: "it differs from what was written"}
}

func (s *State) hasFinalizer() bool {
	for _, f := range s.VM.Finalizers {
		if f == contract.FinalizerVM {
			return true
		}
	}
	return false
}
