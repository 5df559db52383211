package vm

import (
	"strings"
	"time"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// forgetFailure drops a failure whose aim has been reached another way, or is nobody's any more.
func (s *State) forgetFailure() {
	if s.Failure == nil {
		return
	}
	halted := s.strategy() == runstrategy.Halted
	over := false
	switch s.Failure.Step {
	case string(contract.OperationStart), string(contract.OperationRestart):
		over = s.running() && !s.restartOwed() || halted || s.deleting() || s.settledDown()
	case string(contract.OperationStop), string(actDeleteInstance):
		over = s.situation() == runstrategy.Absent && s.VMI != nil
	case string(actDataVolumes):
		over = !s.unmade() || s.deleting()
	case string(actSetAlways):
		over = !halted || s.request() != runstrategy.StartRequest
	}
	if over {
		s.Failure = nil
	}
}

// restartOwed says that the instance that runs is the one that is to be replaced.
func (s *State) restartOwed() bool {
	want, known := s.desired()
	return known && want.Operation == contract.OperationRestart
}

// settledDown says that there is no instance, and that none is asked for.
func (s *State) settledDown() bool {
	want, known := s.desired()
	return known && s.situation() == runstrategy.Absent && want.Operation == contract.OperationNone && s.Open == nil
}

// mirror copies the VMI's conditions, as KubeVirt does: while there is no VMI the previous ones stay.
func (s *State) mirror(now time.Time) {
	now = now.Truncate(time.Second)
	own := map[string]bool{
		"Failure": true, "Ready": true, "RestartRequired": true,
		contract.ConditionHeld: true, contract.ConditionApprovalRequired: true, contract.ConditionControlRefused: true,
	}
	if s.situation() == runstrategy.Absent {
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
	s.Conditions = s.Show(s.Conditions, now)
	s.restartRequired(now)
	if s.Failure != nil && s.Failure.Step != string(entity.ActWrite) && s.Failure.Step != string(actRemoveFinalizer) {
		s.Conditions = conditions.Set(s.Conditions,
			contract.Condition{Type: "Failure", Status: "True", Reason: s.Failure.Reason,
				Message: s.Failure.Message}, now)
	} else if reason, message, ok := s.unserved(); ok {
		s.Conditions = conditions.Set(s.Conditions,
			contract.Condition{Type: "Failure", Status: "True", Reason: reason, Message: message}, now)
	} else if v := s.failing(); v != nil {
		s.Conditions = conditions.Set(s.Conditions, contract.Condition{Type: "Failure", Status: "True",
			Reason: contract.ReasonDataVolumeFailed, Message: v.Waits()}, now)
	} else {
		s.Conditions = conditions.Remove(s.Conditions, "Failure")
	}
}

// restartRequired shows what the last comparison of the instance with its VM has found, for as long as that instance is
// there to stay.
func (s *State) restartRequired(now time.Time) {
	sit := s.situation()
	if s.Checked == nil || s.Checked.RestartRequired == "" || sit == runstrategy.Absent ||
		sit == runstrategy.Deleting || s.VMI.UID != s.Checked.VMI {
		s.Conditions = conditions.Remove(s.Conditions, "RestartRequired")
		return
	}
	c := contract.Condition{Type: "RestartRequired", Status: "True", Message: s.Checked.RestartRequired}
	s.Conditions = conditions.Set(s.Conditions, c, now)
}

// unserved says why nothing is done about a VM.
func (s *State) unserved() (reason, message string, ok bool) {
	if _, known := s.desired(); known || s.deleting() {
		return "", "", false
	}
	reason, message = runstrategy.Unserved(s.strategy())
	return reason, message, true
}

// obstacles are the conditions of the instance that say why its guest does not run, or not as it should.
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

// longestObstacle bounds what an obstacle adds to a history, in bytes.
const longestObstacle = 512

// obstacleOf is the first of them in words, for the record; "": the instance names none.
func obstacleOf(vmi *contract.VMIObservation) string {
	for _, c := range obstaclesOf(vmi) {
		return contract.Cut(c.Type+" is "+c.Status+": "+strings.Trim(c.Reason+": "+c.Message, ": "), longestObstacle)
	}
	return ""
}
