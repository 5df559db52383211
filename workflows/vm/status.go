package vm

import (
	"slices"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Printable is one row of the table of printable statuses: the first that holds is shown.
type Printable struct {
	Status string
	// Awaits names the missing feature without which a row cannot hold. Until then the row only marks its place.
	Awaits string
	When   func(*State) bool
}

// Printables returns all rows in KubeVirt's order of precedence.
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
		{Status: "Terminating", When: (*State).isDeleting},
		{Status: "Stopping", When: (*State).isStopping},
		{Status: "Migrating", When: func(s *State) bool { return s.isRunning() && s.VMI.Migration.UnderWay() }},
		{Status: "Paused", When: func(s *State) bool {
			return s.isRunning() && conditions.HasStatus(s.VMI.Conditions, "Paused", "True")
		}},
		{Status: "Running", When: (*State).isRunning},
		{Status: "ErrorPvcNotFound", When: lacks("Synchronized", "FailedPvcNotFound")},
		{Status: "DataVolumeError", When: func(s *State) bool { return s.failedDataVolume() != nil }},
		{Status: "ErrorUnschedulable", When: lacks("PodScheduled", "Unschedulable")},
		{Status: "Provisioning", When: (*State).isProvisioning},
		{Status: "WaitingForVolumeBinding", When: func(s *State) bool { return s.isStarting() && s.hasUnboundPVC() }},
		{Status: "ErrImagePull", When: lacks("Synchronized", "ErrImagePull")},
		{Status: "ImagePullBackOff", When: lacks("Synchronized", "ImagePullBackOff")},
		{Status: "Starting", When: (*State).isStarting},
		{Status: "CrashLoopBackOff", When: (*State).isCrashLooping},
		{Status: "Stopped", When: (*State).hasNoLiveInstance},
		awaits("WaitingForReceiver", "receiving migrations"),
		{Status: "Unknown", When: func(*State) bool { return true }},
	}
}

// isCrashLooping reports whether no instance is alive, and the last ones never ran or ended too often.
func (s *State) isCrashLooping() bool {
	return s.StartFailure != nil && s.StartFailure.ConsecutiveFailCount > 0 && runstrategy.BacksOff(s.strategy()) &&
		s.hasNoLiveInstance()
}

func (s *State) isRunning() bool {
	return s.situation() != runstrategy.Absent && s.VMI.Phase == "Running"
}

// isStopping reports whether the instance has not ended and is being deleted, or a stop is open.
func (s *State) isStopping() bool {
	sit := s.situation()
	if sit == runstrategy.Deleting {
		return !s.VMI.Ended()
	}
	return sit == runstrategy.Alive && s.Open != nil && s.Open.Operation == contract.OperationStop
}

// isStarting reports whether the instance does not run yet, or is about to be made.
func (s *State) isStarting() bool {
	if s.situation() == runstrategy.Absent {
		// A start that is repeated after a failure is not shown until it has made an instance.
		return s.Open != nil && s.Open.Operation != contract.OperationStop && !s.Open.Cancelled &&
			(s.Failure.OfStep(string(s.Open.Operation)) == nil || !s.HasChange(contract.ChangeAfterFirst))
	}
	switch s.VMI.Phase {
	case "", "Pending", "Scheduling", "Scheduled":
		return true
	default:
		return false
	}
}

// hasUnboundPVC reports whether a PVC of the instance exists and is not bound.
func (s *State) hasUnboundPVC() bool {
	return s.situation() != runstrategy.Absent && slices.ContainsFunc(s.VMI.Claims, contract.VolumeClaim.Unbound)
}

// hasNoLiveInstance reports whether there is no instance, or it has ended.
func (s *State) hasNoLiveInstance() bool {
	switch s.situation() {
	case runstrategy.Absent, runstrategy.Succeeded, runstrategy.Failed:
		return true
	case runstrategy.Deleting:
		return s.VMI.Ended()
	default:
		return false
	}
}

func (s *State) printableStatus() string {
	for _, p := range Printables() {
		if p.Awaits == "" && p.When(s) {
			return p.Status
		}
	}
	return "Unknown"
}

// status returns the desired status.
func (s *State) status() contract.VMStatus {
	st := contract.VMStatus{
		Created: s.situation() != runstrategy.Absent,
		Ready: s.situation() != runstrategy.Absent &&
			conditions.HasStatus(s.VMI.Conditions, "Ready", "True"),
		PrintableStatus:     s.printableStatus(),
		DesiredGeneration:   s.VM.Generation,
		ObservedGeneration:  s.observedGeneration(),
		RunStrategy:         s.RunStrategy,
		StartFailure:        s.StartFailure,
		StateChangeRequests: s.pendingRequests(),
		Conditions:          s.Conditions,
	}
	return st
}

// observedGeneration returns the VM's generation that its instance is known to follow. Without one, and once it has
// ended or is being deleted, that is the VM's own: nothing follows an older one. But as long as the status shows that
// instance as ready, it is the instance's: Ready is not that of the next one. In v0.1.0 it stayed that of
// the last instance.
func (s *State) observedGeneration() int64 {
	situation, old := s.situation(), !s.HasChange(contract.ChangeAfterFirst)
	isReady := situation != runstrategy.Absent && conditions.HasStatus(s.VMI.Conditions, "Ready", "True")
	switch {
	case situation == runstrategy.Alive, isReady, old && situation != runstrategy.Absent:
		return s.VMI.VMGeneration
	case old && s.Written != nil:
		return s.Written.ObservedGeneration
	default:
		return s.VM.Generation
	}
}

// needsWrite reports whether the status differs from the written one. While the VM starts or stops, a change of mere
// reasons and messages waits for the next write: several follow each other within a second.
func (s *State) needsWrite() bool {
	if s.Open != nil && s.Open.Operation != contract.OperationStop && s.situation() == runstrategy.Absent &&
		s.Failure == nil && !s.isDeleting() && !runstrategy.Unasked(s.VM) {
		// The instance is being made at this moment: the write that shows it has all of this.
		return false
	}
	now := s.status()
	if s.Written == nil || s.OutcomeUnknown {
		// The written status is unknown. Writing a status again that is older than this workflow changes nothing.
		return true
	}
	then := *s.Written
	if len(s.VM.StateChangeRequests) == len(now.StateChangeRequests) {
		// Requests that users have added are no change of the entity's.
		now.StateChangeRequests, then.StateChangeRequests = nil, nil
	} else {
		return true
	}
	if now.PrintableStatus == then.PrintableStatus &&
		(now.PrintableStatus == "Starting" || now.PrintableStatus == "Stopping") {
		now.Conditions, then.Conditions = withoutReasons(now.Conditions), withoutReasons(then.Conditions)
	}
	return !entity.Same(now, then)
}

// withoutReasons returns type and status of each condition.
func withoutReasons(list []contract.Condition) []contract.Condition {
	out := make([]contract.Condition, 0, len(list))
	for _, c := range list {
		out = append(out, contract.Condition{Type: c.Type, Status: c.Status})
	}
	return out
}
