package vmi

import (
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
)

// conditionEviction is KubeVirt's name of the condition, and its reason.
const conditionEviction = "EvictionRequested"

// evictionCondition returns the condition of a guest that is to leave its node; nil: it is not.
func (s *State) evictionCondition() *contract.Condition {
	from := s.VMI.EvacuationNode
	return conditionIf(from != "" && s.Phase == PhaseRunning && s.Pod != nil && s.Pod.NodeName == from,
		contract.Condition{Reason: conditionEviction})
}

// evictionMark returns the pod whose annotation a write of the status is to make agree with that condition; nil: it
// agrees already, or the guest has left the node.
func (s *State) evictionMark(status contract.VMIStatus) *contract.EvictionMark {
	shown := s.VMI.Conditions
	if s.Written != nil {
		shown = s.Written.Conditions
	}
	was := conditions.HasStatus(shown, conditionEviction, "True")
	is := conditions.HasStatus(status.Conditions, conditionEviction, "True")
	changes := was != is || is && s.OutcomeUnknown || !is && s.EvictionMarked
	if !changes || s.Phase != PhaseRunning || !s.hasPod() || s.isEvacuated(status.NodeName) {
		return nil
	}
	return &contract.EvictionMark{Pod: s.object(s.Object.Namespace), Node: s.Pod.NodeName}
}

// noteMark records, before a write, that the pod may get the annotation, and after it (written) that it agrees with the
// condition.
func (s *State) noteMark(mark *contract.EvictionMark, status contract.VMIStatus, written bool) {
	if is := conditions.HasStatus(status.Conditions, conditionEviction, "True"); mark != nil && (is || written) {
		s.EvictionMarked = is
	}
}
