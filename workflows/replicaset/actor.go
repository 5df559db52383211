package replicaset

import (
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Scaled has the user behind a generation of the set that came from its scale subresource.
type Scaled struct {
	Generation int64  `json:"generation,omitempty"`
	Actor      string `json:"actor,omitempty"`
}

// noteScaleReport stores a report of who scales the set. It normally arrives before the set's new generation.
func (s *State) noteScaleReport(r contract.RequestReport) {
	if r.Operation != contract.OperationReplicate || s.Set == nil {
		return
	}
	if entity.Newer(s.Set.ResourceVersion, r.ResourceVersion) && s.attributeScale(r, *s.Set) {
		if t := s.Open; t != nil && t.Generation == s.Set.Generation && t.Actor == "" {
			t.Actor = r.Actor // the report came after the generation that it is about
			s.RecordOpened(&t.Transition)
		}
		return
	}
	s.Scale = &r
}

// matchScaleReport compares a new generation of the set with the last report, and drops the report.
func (s *State) matchScaleReport(o contract.ReplicaSetObservation) {
	if s.Scale != nil {
		s.attributeScale(*s.Scale, o)
	}
	s.Scale = nil
}

// attributeScale records r's user as the actor of o's generation if o has r's number of replicas and no actor, and
// reports whether it did.
func (s *State) attributeScale(r contract.RequestReport, o contract.ReplicaSetObservation) bool {
	if o.Actor != "" || o.Replicas != r.Replicas {
		return false
	}
	s.Scaled = Scaled{Generation: o.Generation, Actor: r.Actor}
	return true
}

// actor returns the user behind the current specification or deletion ("" if unknown).
func (s *State) actor() string {
	last := s.Set.Actor
	if last == "" && s.Scaled.Generation == s.Set.Generation {
		last = s.Scaled.Actor
	}
	return s.RequestedBy(s.isDeleting(), s.Set.DeletionTimestamp, last)
}
