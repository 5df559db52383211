package replicaset

import (
	"slices"
	"strings"
	"time"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// maxTombstones bounds how many of the replicas that are gone are remembered.
const maxTombstones = 256

// State is everything that a replica set's entity knows. It is carried across Continue-As-New.
type State struct {
	Object contract.Object                 `json:"object"`
	Set    *contract.ReplicaSetObservation `json:"set,omitempty"`
	// Next is a newer incarnation of the name, adopted when this one is gone.
	Next *contract.ReplicaSetObservation `json:"next,omitempty"`
	// Missed says that the set was gone before it was seen: something old and late has started this entity.
	Missed bool `json:"missed,omitempty"`

	// Replicas are the instances that the set controls, might adopt or has just released, ordered by UID.
	Replicas []contract.ReplicaObservation `json:"replicas,omitempty"`
	// Tombstones are UIDs of the last ones that were gone: a late observation does not bring them back.
	Tombstones []string `json:"tombstones,omitempty"`
	// Known says that the replicas have been looked up, and nothing has happened since that might have been missed.
	Known bool `json:"known,omitempty"`
	// More is how many there are, or were when they were looked up, besides contract.MaxReplicasSeen.
	More int `json:"more,omitempty"`
	// Ordinal is the highest that was given to a replica.
	Ordinal int `json:"ordinal,omitempty"`

	// Open is the transition in flight, and Count numbers them.
	Open  *Transition `json:"open,omitempty"`
	Count int         `json:"count,omitempty"`
	// Last is how the last transition went.
	Last    *entity.Outcome `json:"last,omitempty"`
	Failure *entity.Failure `json:"failure,omitempty"`
	// CrashLoop counts replicas that ended without ever having run, one after the other; the next is not made before
	// CrashLoopUntil.
	CrashLoop      int       `json:"crashLoop,omitempty"`
	CrashLoopUntil time.Time `json:"crashLoopUntil,omitzero"`

	// Scale and Scaled are what is known of who scaled the set past the webhooks that record it: see scale.go.
	Scale  *contract.RequestReport `json:"scale,omitempty"`
	Scaled Scaled                  `json:"scaled,omitzero"`

	entity.Manual
	entity.Memory

	Conditions []contract.Condition `json:"conditions,omitempty"`
	entity.StatusWrites[contract.ReplicaSetStatus]
	WrittenAt time.Time `json:"writtenAt,omitzero"`
}

// Transition is an open child workflow.
type Transition struct {
	entity.Transition
	// Generation is the set's when it was opened; 0 where it was opened before this was kept.
	Generation int64 `json:"generation,omitempty"`
	// Replicas is how many it is to lead to; From and Make are the ordinals that it gives out.
	Replicas int `json:"replicas"`
	From     int `json:"from,omitempty"`
	Make     int `json:"make,omitempty"`
	// Unseen are those of them of which no instance has been observed yet.
	Unseen []int `json:"unseen,omitempty"`
	// Remove are UIDs of replicas that go, Finished of those that have ended by themselves.
	Remove   []string `json:"remove,omitempty"`
	Finished []string `json:"finished,omitempty"`
	// Reported is what was last signalled to the child.
	Reported contract.ReplicateProgress `json:"reported,omitzero"`
}

// open is the transition in flight, or nil.
func (s *State) open() *entity.Transition {
	if s.Open == nil {
		return nil
	}
	return &s.Open.Transition
}

// observeSet folds what crdwatch saw of the object.
func (s *State) observeSet(o contract.ReplicaSetObservation) {
	again := s.HeardObject(o.Epoch)
	if s.Set == nil {
		if s.Missed = o.Gone; !o.Gone {
			s.adopt(o)
		}
		return
	}
	now, next := entity.Track(s.Set, s.Next, o, again)
	s.Next = next
	switch {
	case !again || o.Gone:
	case o.UID == s.Object.UID:
		defer s.reread()
	default:
		now = entity.Gone(now) // nobody reads it: what changes its instances reads them, and the set
	}
	s.believe(now)
}

// reread has the replicas looked up again and the status written anew: what is remembered of both may be older than
// what is true.
func (s *State) reread() {
	s.Stale, s.Known, s.OutcomeUnknown = false, false, true
	s.Replicas, s.Tombstones = nil, nil
	s.open().AskNow()
}

// believe takes what is the newest of the set.
func (s *State) believe(o *contract.ReplicaSetObservation) {
	if o.Generation != s.Set.Generation {
		s.specChanged()
		s.seeScaled(*o)
	}
	if held, ok := conditions.Get(o.Conditions, contract.ConditionHeld); ok && o != s.Set && !o.Gone &&
		s.Forgot(&held) {
		s.Hold = entity.HoldShown(&held)
		s.reread()
	}
	s.Set = o
}

// specChanged: somebody changed the specification, so what failed before may go well now.
func (s *State) specChanged() {
	s.Failure = s.Failure.RetryAfter(time.Time{})
	s.CrashLoop, s.CrashLoopUntil = 0, time.Time{}
}

func (s *State) adopt(o contract.ReplicaSetObservation) {
	s.Object.UID = o.UID
	s.Set = &o
	s.Conditions = o.Conditions
	s.Known, s.ObjectEpoch = false, max(s.ObjectEpoch, o.Epoch)
	if held, ok := conditions.Get(o.Conditions, contract.ConditionHeld); ok {
		s.Hold = entity.HoldShown(&held)
	}
}

// next moves on to the newer incarnation. What is known of instances stays: it is looked up anyway.
func (s *State) next() State {
	n := State{
		Object: contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name},
		Memory: s.Memory.Next(),
	}
	if s.Next != nil {
		n.adopt(*s.Next)
	}
	return n
}

// observeReplicas folds what crdwatch saw of instances.
func (s *State) observeReplicas(o contract.ReplicasObservation) {
	if s.Heard(o.Epoch) {
		s.reread()
	}
	for _, r := range o.Replicas {
		s.observeReplica(r)
	}
	if o.Resync {
		s.Known = false
	}
}

// observeReplica folds one. Of two observations of one version the later one counts: the selector may have changed in
// between.
func (s *State) observeReplica(o contract.ReplicaObservation) {
	if s.Object.UID == "" {
		return // they are looked up once the object has been seen
	}
	i, known := slices.BinarySearchFunc(s.Replicas, o.UID, byUID)
	if o.Gone {
		if known {
			s.Replicas = slices.Delete(s.Replicas, i, i+1)
			s.lookAgain()
		}
		s.addTombstone(o)
		return
	}
	if slices.Contains(s.Tombstones, o.UID) {
		return
	}
	if known && entity.Newer(s.Replicas[i].ResourceVersion, o.ResourceVersion) {
		return
	}
	s.numbered(o)
	if !s.concerns(o) && !known {
		return
	}
	switch {
	case known && s.concerns(o):
		s.Replicas[i] = o
	case known:
		s.Replicas = slices.Delete(s.Replicas, i, i+1)
	case s.fits(o):
		i, _ = slices.BinarySearchFunc(s.Replicas, o.UID, byUID)
		s.Replicas = slices.Insert(s.Replicas, i, o)
	}
}

// fits makes room for another instance, and says whether there is any: its own are more to a set than those that it
// might adopt.
func (s *State) fits(o contract.ReplicaObservation) bool {
	if len(s.Replicas) < contract.MaxReplicasSeen {
		return true
	}
	s.More++
	free := slices.IndexFunc(s.Replicas, func(r contract.ReplicaObservation) bool { return !s.mine(r) })
	if free < 0 || !s.mine(o) {
		return false
	}
	s.Replicas = slices.Delete(s.Replicas, free, free+1)
	return true
}

// lookAgain has the replicas looked up once more, when something was done about those that were looked at, and there
// are more.
func (s *State) lookAgain() {
	if s.More > 0 {
		s.Known = false
	}
}

func byUID(r contract.ReplicaObservation, uid string) int { return strings.Compare(r.UID, uid) }

func (s *State) addTombstone(o contract.ReplicaObservation) {
	s.numbered(o)
	if slices.Contains(s.Tombstones, o.UID) {
		return
	}
	s.Tombstones = append(s.Tombstones, o.UID)
	if over := len(s.Tombstones) - maxTombstones; over > 0 {
		s.Tombstones = slices.Delete(s.Tombstones, 0, over)
	}
}

// numbered notes the ordinal of an instance that this set has made.
func (s *State) numbered(o contract.ReplicaObservation) {
	if o.OwnerUID != s.Object.UID || o.Ordinal == 0 {
		return
	}
	s.Ordinal = max(s.Ordinal, o.Ordinal)
	if t := s.Open; t != nil {
		t.Unseen = slices.DeleteFunc(t.Unseen, func(n int) bool { return n == o.Ordinal })
	}
}

// concerns says whether an instance is this set's, or might become so.
func (s *State) concerns(o contract.ReplicaObservation) bool {
	return o.OwnerUID == s.Object.UID || o.OwnerUID == "" && o.Matches
}

// found takes in a complete list of what there is.
func (s *State) found(r contract.FindReplicasResult) {
	there := make([]string, 0, len(r.Replicas))
	for _, o := range r.Replicas {
		there = append(there, o.UID)
	}
	s.Replicas = slices.DeleteFunc(s.Replicas, func(o contract.ReplicaObservation) bool {
		return !slices.Contains(there, o.UID) && !entity.Newer(o.ResourceVersion, r.ResourceVersion)
	})
	s.More = r.More
	for _, o := range r.Replicas {
		s.observeReplica(o)
	}
	s.Known = true
}
