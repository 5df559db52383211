package replicaset

import (
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// subject is the set as a person is spoken to about it.
func (s *State) subject() entity.Subject {
	return entity.Subject{
		Manual: &s.Manual, Kind: "VirtualMachineInstanceReplicaSet", Name: "replica set", Follows: "specification",
		Seen: func() bool { return s.Set != nil }, Deleting: s.deleting, Open: s.open,
	}
}

// controls are what a person may ask of a replica set's entity. What a transition that is cancelled has made stays.
func (e *set) controls() []entity.Control {
	s := &e.state
	waits := func() bool { return !s.CrashLoopUntil.IsZero() }
	end := func(time.Time) { s.CrashLoopUntil = time.Time{} }
	return append(s.subject().Controls(), entity.RetryNow(&s.Failure, waits, end), entity.Repair(e.loop, s, sound))
}

// sound refuses a corrected state that is about something else than the one it corrects.
func sound(was, now *State) error { return entity.SameObject(was.identity(), now.identity()) }

func (s *State) identity() entity.Identity[contract.ReplicaSetObservation] {
	return entity.Identity[contract.ReplicaSetObservation]{
		Field: "set", Kind: "VirtualMachineInstanceReplicaSet", Object: s.Object, Seen: s.Set, Next: s.Next,
		Open: s.Open != nil,
	}
}

func (s *State) deleting() bool { return s.Set.Gone || s.Set.DeletionTimestamp != nil }
