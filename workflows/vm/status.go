package vm

import (
	"slices"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Printable is one row of the table of printable statuses: the first that holds is shown.
type Printable struct {
	Status string
	// Awaits names what has to exist before a row can hold; until then it only marks its place.
	Awaits string
	When   func(*State) bool
}

// Printables is KubeVirt's order of precedence, whole.
func Printables() []Printable {
	lacks := func(kind, reason string) func(*State) bool {
		return func(s *State) bool {
			if s.situation() == runstrategy.Absent {
				return false
			}
			c, ok := conditions.Get(s.VMI.Conditions, kind)
			return ok && c.Status == "False" && c.Reason == reason
		}
	}
	awaits := func(status, what string) Printable { return Printable{Status: status, Awaits: what} }
	return []Printable{
		{Status: "Terminating", When: (*State).deleting},
		{Status: "Stopping", When: (*State).stopping},
		{Status: "Migrating", When: func(s *State) bool { return s.running() && s.VMI.Migration.UnderWay() }},
		{Status: "Paused", When: func(s *State) bool {
			return s.running() && conditions.Is(s.VMI.Conditions, "Paused", "True")
		}},
		{Status: "Running", When: (*State).running},
		{Status: "ErrorPvcNotFound", When: lacks("Synchronized", "FailedPvcNotFound")},
		{Status: "DataVolumeError", When: func(s *State) bool { return s.failing() != nil }},
		{Status: "ErrorUnschedulable", When: lacks("PodScheduled", "Unschedulable")},
		{Status: "Provisioning", When: (*State).provisioning},
		{Status: "WaitingForVolumeBinding", When: func(s *State) bool { return s.starting() && s.unbound() }},
		{Status: "ErrImagePull", When: lacks("Synchronized", "ErrImagePull")},
		{Status: "ImagePullBackOff", When: lacks("Synchronized", "ImagePullBackOff")},
		{Status: "Starting", When: (*State).starting},
		{Status: "CrashLoopBackOff", When: (*State).crashLoop},
		{Status: "Stopped", When: (*State).over},
		awaits("WaitingForReceiver", "receiving migrations"),
		{Status: "Unknown", When: func(*State) bool { return true }},
	}
}

// crashLoop: there is no instance that lives, and those before it never ran.
func (s *State) crashLoop() bool {
	return s.StartFailure != nil && s.StartFailure.ConsecutiveFailCount > 0 && runstrategy.BacksOff(s.strategy()) &&
		s.over()
}

func (s *State) running() bool {
	return s.situation() != runstrategy.Absent && s.VMI.Phase == "Running"
}

// stopping: the instance has not ended and is going, or is about to.
func (s *State) stopping() bool {
	sit := s.situation()
	if sit == runstrategy.Deleting {
		return s.VMI.Phase != "Succeeded" && s.VMI.Phase != "Failed"
	}
	return sit == runstrategy.Alive && s.Open != nil && s.Open.Operation == contract.OperationStop
}

// starting: the instance has not come up yet, or is about to be made.
func (s *State) starting() bool {
	if s.situation() == runstrategy.Absent {
		return s.Open != nil && s.Open.Operation != contract.OperationStop && !s.Open.Cancelled
	}
	switch s.VMI.Phase {
	case "", "Pending", "Scheduling", "Scheduled":
		return true
	default:
		return false
	}
}

// unbound: a claim of the instance is there, and not bound.
func (s *State) unbound() bool {
	return s.situation() != runstrategy.Absent && slices.ContainsFunc(s.VMI.Claims, contract.VolumeClaim.Unbound)
}

// over: there is no instance, or it has ended.
func (s *State) over() bool {
	switch s.situation() {
	case runstrategy.Absent, runstrategy.Succeeded, runstrategy.Failed:
		return true
	case runstrategy.Deleting:
		return s.VMI.Phase == "Succeeded" || s.VMI.Phase == "Failed"
	default:
		return false
	}
}

func (s *State) printable() string {
	for _, p := range Printables() {
		if p.Awaits == "" && p.When(s) {
			return p.Status
		}
	}
	return "Unknown"
}

// status is what users are to see.
func (s *State) status() contract.VMStatus {
	st := contract.VMStatus{
		Created:             s.situation() != runstrategy.Absent,
		Ready:               s.situation() != runstrategy.Absent && conditions.Is(s.VMI.Conditions, "Ready", "True"),
		PrintableStatus:     s.printable(),
		DesiredGeneration:   s.VM.Generation,
		ObservedGeneration:  s.ObservedGeneration,
		RunStrategy:         s.RunStrategy,
		StartFailure:        s.StartFailure,
		StateChangeRequests: s.pendingRequests(),
		Conditions:          s.Conditions,
	}
	return st
}

// differs says whether the status is worth a write. What only says in other words why a VM that comes up or goes down
// is not ready waits for the next write: it goes through several such reasons within a second.
func (s *State) differs() bool {
	if s.Open != nil && s.Open.Operation != contract.OperationStop && s.situation() == runstrategy.Absent &&
		s.Failure == nil && !s.deleting() && !runstrategy.Unasked(s.VM) {
		// The instance is being made this very moment; the write that tells of it says all.
		return false
	}
	now := s.status()
	if s.Written == nil || s.OutcomeUnknown {
		// Nothing is known of what was written: a status that is older than this workflow is written once more, which
		// changes nothing.
		return true
	}
	then := *s.Written
	if len(s.VM.StateChangeRequests) == len(now.StateChangeRequests) {
		// Requests that somebody else added are not news of ours.
		now.StateChangeRequests, then.StateChangeRequests = nil, nil
	} else {
		return true
	}
	if now.PrintableStatus == then.PrintableStatus &&
		(now.PrintableStatus == "Starting" || now.PrintableStatus == "Stopping") {
		now.Conditions, then.Conditions = bare(now.Conditions), bare(then.Conditions)
	}
	return !entity.Same(now, then)
}

// bare keeps type and status of each condition.
func bare(list []contract.Condition) []contract.Condition {
	out := make([]contract.Condition, 0, len(list))
	for _, c := range list {
		out = append(out, contract.Condition{Type: c.Type, Status: c.Status})
	}
	return out
}
