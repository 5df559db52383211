package replicaset

import (
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// subject returns the set as the shared controls and their messages name it.
func (s *State) subject() entity.Subject {
	return entity.Subject{
		Manual: &s.Manual, Kind: "VirtualMachineInstanceReplicaSet", Name: "replica set", Follows: "specification",
		Seen: func() bool { return s.Set != nil }, Deleting: s.isDeleting, Open: s.openTransition,
	}
}

// controls returns the controls of a replica set's entity. A cancelled transition keeps the replicas that it has
// made.
func (e *set) controls() []entity.Control {
	s := &e.state
	isBackingOff := func() bool { return !s.CrashLoopUntil.IsZero() }
	endBackOff := func(time.Time) { s.CrashLoopUntil = time.Time{} }
	return append(s.subject().Controls(), entity.RetryNow(&s.Failure, isBackingOff, endBackOff),
		entity.Repair(e.loop, s, checkRepair))
}

// checkRepair refuses a corrected state that is not about the same object.
func checkRepair(was, now *State) error { return entity.SameObject(was.identity(), now.identity()) }

func (s *State) identity() entity.Identity[contract.ReplicaSetObservation] {
	return entity.Identity[contract.ReplicaSetObservation]{
		Field: "set", Kind: "VirtualMachineInstanceReplicaSet", Object: s.Object, Seen: s.Set, Next: s.Next,
		Open: s.Open != nil,
	}
}

func (s *State) isDeleting() bool { return s.Set.Gone || s.Set.DeletionTimestamp != nil }
