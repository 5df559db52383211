package replicaset

import (
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Conditions of KubeVirt's replica set.
const (
	conditionPaused  = "ReplicaPaused"
	conditionFailure = "ReplicaFailure"
)

// status returns the desired status.
func (s *State) status() contract.ReplicaSetStatus {
	st := contract.ReplicaSetStatus{LabelSelector: s.Set.Selector, Conditions: s.Conditions}
	for _, r := range s.Replicas {
		if s.countsForSet(r) {
			st.Replicas++
			if r.Ready {
				st.ReadyReplicas++
			}
		}
	}
	return st
}

// setConditions updates the conditions.
func (s *State) setConditions(now time.Time) {
	now = now.Truncate(time.Second)
	if s.Set.Paused {
		s.Conditions = conditions.Set(s.Conditions,
			contract.Condition{Type: conditionPaused, Status: "True", Reason: "Paused",
				Message: "Controller got paused"}, now)
	} else {
		s.Conditions = conditions.Remove(s.Conditions, conditionPaused)
	}
	if f := s.Failure; f != nil && f.Step != string(entity.ActWrite) {
		if old, ok := conditions.Get(s.Conditions, conditionFailure); ok && old.Reason != f.Reason {
			s.Conditions = conditions.Remove(s.Conditions, conditionFailure)
		}
		s.Conditions = conditions.Set(s.Conditions,
			contract.Condition{Type: conditionFailure, Status: "True", Reason: f.Reason, Message: f.Message}, now)
	} else if s.Set.Replicas > contract.MaxReplicas && s.Set.Unusable != "" {
		// KubeVirt has no such bound, so a user who scales beyond it must see why nothing happens.
		unusable := contract.Condition{Type: conditionFailure, Status: "True", Reason: contract.ReasonFailedCreate,
			Message: s.Set.Unusable}
		s.Conditions = conditions.Show(s.Conditions, conditionFailure, &unusable, now)
	} else {
		s.Conditions = conditions.Remove(s.Conditions, conditionFailure)
	}
	s.Conditions = s.SetConditions(s.Conditions, now)
}

// progressPause is how long a status may be behind by less than a tenth of the way.
const progressPause = 5 * time.Second

// needsWrite reports whether the status is to be written, now or, if that is later, at the returned time. During a
// transition the numbers change by ones. They are written in tenths, or when nothing was written for a while: the last
// few replicas may take until the deadline.
func (s *State) needsWrite(now time.Time) (bool, time.Time) {
	st := s.status()
	if s.Written == nil {
		// The replicas were not read yet. Writing a status again that is older than this workflow changes nothing.
		return s.Known, time.Time{}
	}
	if s.OutcomeUnknown {
		return true, time.Time{}
	}
	if entity.Same(st, *s.Written) {
		return false, time.Time{}
	}
	then := *s.Written
	if t := s.Open; t != nil && !t.Cancelled {
		steps := max(t.Make, len(t.Remove)+len(t.Finished))
		if !isWorthReporting(st.Replicas, then.Replicas, steps) &&
			!isWorthReporting(st.ReadyReplicas, then.ReadyReplicas, steps) {
			then.Replicas, then.ReadyReplicas = st.Replicas, st.ReadyReplicas
		}
	}
	if !entity.Same(st, then) {
		return true, time.Time{}
	}
	if s.WrittenAt.IsZero() {
		return false, time.Time{}
	}
	at := s.WrittenAt.Add(progressPause)
	return !now.Before(at), at
}

// events returns the events that a write of the status records.
func (s *State) events(now contract.ReplicaSetStatus) []contract.Event {
	var then []contract.Condition
	if s.Written != nil {
		then = s.Written.Conditions
	} else {
		then = s.Set.Conditions
	}
	was := conditions.HasStatus(then, conditionPaused, "True")
	is := conditions.HasStatus(now.Conditions, conditionPaused, "True")
	switch {
	case is && !was:
		return []contract.Event{{Type: "Normal", Reason: "SuccessfulPaused", Message: "Paused"}}
	case was && !is:
		return []contract.Event{{Type: "Normal", Reason: "SuccessfulResumed", Message: "Resumed"}}
	default:
		return nil
	}
}

// phase returns the value of the search attribute.
func (s *State) phase() string {
	switch {
	case s.Set == nil:
		return "Unknown"
	case s.Set.Gone || s.Set.DeletionTimestamp != nil:
		return "Terminating"
	case s.Set.Paused:
		return "Paused"
	case s.Failure != nil:
		return "Failing"
	case s.Open != nil:
		return "Scaling"
	default:
		return "Settled"
	}
}
