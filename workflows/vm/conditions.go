package vm

import (
	"slices"
	"strings"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// dropObsoleteFailure drops a failure whose step has become unnecessary.
func (s *State) dropObsoleteFailure() {
	if s.Failure == nil {
		return
	}
	halted := s.strategy() == runstrategy.Halted
	over := false
	switch s.Failure.Step {
	case string(contract.OperationStart), string(contract.OperationRestart):
		over = s.isRunning() && !s.isRestartDesired() || halted || s.isDeleting() || s.isAtRest()
	case string(contract.OperationStop), string(actDeleteInstance):
		over = s.situation() == runstrategy.Absent && s.VMI != nil
	case string(actDataVolumes):
		over = !s.hasMissingDataVolume() || s.isDeleting()
	case string(actSetAlways):
		over = !halted || s.request() != runstrategy.StartRequest
	}
	if over {
		s.Failure = nil
	}
}

// isRestartDesired reports whether the running instance is still to be replaced.
func (s *State) isRestartDesired() bool {
	want, known := s.desiredAction()
	return known && want.Operation == contract.OperationRestart
}

// isAtRest reports whether there is no instance, and none is desired.
func (s *State) isAtRest() bool {
	want, known := s.desiredAction()
	return known && s.situation() == runstrategy.Absent && want.Operation == contract.OperationNone && s.Open == nil
}

// mirrorConditions copies the VMI's conditions, as KubeVirt does. Without a VMI the previous ones stay.
func (s *State) mirrorConditions(now time.Time) {
	now = now.Truncate(time.Second)
	own := map[string]bool{
		"Failure": true, "Ready": true, "RestartRequired": true,
		contract.ConditionHeld: true, contract.ConditionApprovalRequired: true, contract.ConditionControlRefused: true,
	}
	if s.situation() == runstrategy.Absent {
		if s.isToStayStopped() && s.HasChange(contract.ChangeAfterFirst) {
			s.Conditions = slices.DeleteFunc(s.Conditions, func(c contract.Condition) bool { return !own[c.Type] })
		}
		s.Conditions = conditions.Set(s.Conditions,
			contract.Condition{Type: "Ready", Status: "False", Reason: "VMINotExists",
				Message: "VMI does not exist"}, now)
	} else {
		var kept []contract.Condition
		for _, c := range s.Conditions {
			if _, there := conditions.Get(s.VMI.Conditions, c.Type); there || own[c.Type] {
				kept = append(kept, c)
			}
		}
		s.Conditions = kept
		for _, c := range s.VMI.Conditions {
			s.Conditions = conditions.Set(s.Conditions, c, now)
		}
		if _, ok := conditions.Get(s.VMI.Conditions, "Ready"); !ok {
			s.Conditions = conditions.Set(s.Conditions,
				contract.Condition{Type: "Ready", Status: "False", Reason: "VMIConditionMissing",
					Message: "VMI is missing the Ready condition"}, now)
		}
	}
	s.Conditions = s.SetConditions(s.Conditions, now)
	s.showRestartRequired(now)
	if s.Failure != nil && s.Failure.Step != string(entity.ActWrite) && s.Failure.Step != string(actRemoveFinalizer) {
		s.Conditions = conditions.Set(s.Conditions,
			contract.Condition{Type: "Failure", Status: "True", Reason: s.Failure.Reason,
				Message: s.Failure.Message}, now)
	} else if reason, message, ok := s.unsupportedStrategy(); ok {
		s.Conditions = conditions.Set(s.Conditions,
			contract.Condition{Type: "Failure", Status: "True", Reason: reason, Message: message}, now)
	} else if v := s.failedDataVolume(); v != nil {
		s.Conditions = conditions.Set(s.Conditions, contract.Condition{Type: "Failure", Status: "True",
			Reason: contract.ReasonDataVolumeFailed, Message: v.Waits()}, now)
	} else {
		s.Conditions = conditions.Remove(s.Conditions, "Failure")
	}
}

// isToStayStopped reports whether a VM without an instance is to stay so. The conditions of the last instance are still
// useful for a VM that crashes or starts.
func (s *State) isToStayStopped() bool {
	return (s.Open == nil || s.Open.Operation == contract.OperationStop) && !s.isCrashLooping()
}

// showRestartRequired shows the result of the last comparison of the instance with its VM, as long as that instance
// exists and is not being deleted.
func (s *State) showRestartRequired(now time.Time) {
	sit := s.situation()
	if s.Checked == nil || s.Checked.RestartRequired == "" || sit == runstrategy.Absent ||
		sit == runstrategy.Deleting || s.VMI.UID != s.Checked.VMI {
		s.Conditions = conditions.Remove(s.Conditions, "RestartRequired")
		return
	}
	c := contract.Condition{Type: "RestartRequired", Status: "True", Message: s.Checked.RestartRequired}
	s.Conditions = conditions.Set(s.Conditions, c, now)
}

// unsupportedStrategy returns why the VM's run strategy cannot be applied, if that is so.
func (s *State) unsupportedStrategy() (reason, message string, ok bool) {
	if _, known := s.desiredAction(); known || s.isDeleting() {
		return "", "", false
	}
	reason, message = runstrategy.Unserved(s.strategy())
	return reason, message, true
}

// obstacles returns the conditions of the instance that explain why its guest does not run as it should.
func (s *State) obstacles() []contract.Condition {
	if s.situation() == runstrategy.Absent {
		return nil
	}
	return obstaclesOf(s.VMI)
}

func obstaclesOf(vmi *contract.VMIObservation) (list []contract.Condition) {
	for _, bad := range []contract.Condition{
		{Type: "PodScheduled", Status: "False"}, {Type: "Synchronized", Status: "False"},
		{Type: contract.ConditionNodeLost, Status: "True"},
	} {
		if c, ok := conditions.Get(vmi.Conditions, bad.Type); ok && c.Status == bad.Status {
			list = append(list, c)
		}
	}
	return list
}

// maxObstacle bounds what an obstacle adds to a history, in bytes.
const maxObstacle = 512

// obstacleOf returns the first obstacle as text for the record; "": the instance has none.
func obstacleOf(vmi *contract.VMIObservation) string {
	for _, c := range obstaclesOf(vmi) {
		return contract.Cut(c.Type+" is "+c.Status+": "+strings.Trim(c.Reason+": "+c.Message, ": "), maxObstacle)
	}
	return ""
}
