package replicaset

import (
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Scaled says who is behind a generation of the set that came about by its scale subresource.
type Scaled struct {
	Generation int64  `json:"generation,omitempty"`
	Actor      string `json:"actor,omitempty"`
}

// scaling takes in who is scaling the set, mostly before that shows in the set itself.
func (s *State) scaling(r contract.RequestReport) {
	if r.Operation != contract.OperationReplicate || s.Set == nil {
		return
	}
	if entity.Newer(s.Set.ResourceVersion, r.ResourceVersion) && s.scaledBy(r, *s.Set) {
		if t := s.Open; t != nil && t.Generation == s.Set.Generation && t.Actor == "" {
			t.Actor = r.Actor // the report came a moment after what it is about
			s.Opened(&t.Transition)
		}
		return
	}
	s.Scale = &r
}

// seeScaled meets a new generation of the set: it is what was reported last, or that came to nothing.
func (s *State) seeScaled(o contract.ReplicaSetObservation) {
	if s.Scale != nil {
		s.scaledBy(*s.Scale, o)
	}
	s.Scale = nil
}

// scaledBy takes a report for the reason of a generation that has as many replicas, and that nobody else is known to be
// behind.
func (s *State) scaledBy(r contract.RequestReport, o contract.ReplicaSetObservation) bool {
	if o.Actor != "" || o.Replicas != r.Replicas {
		return false
	}
	s.Scaled = Scaled{Generation: o.Generation, Actor: r.Actor}
	return true
}

// actor is who is behind what the set is to be now ("" when not known).
func (s *State) actor() string {
	last := s.Set.Actor
	if last == "" && s.Scaled.Generation == s.Set.Generation {
		last = s.Scaled.Actor
	}
	return s.Behind(s.deleting(), s.Set.DeletionTimestamp, last)
}
