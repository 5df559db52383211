package replicaset

import (
	"slices"
	"strings"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// maxTombstones bounds the UIDs of gone replicas in the state.
const maxTombstones = 256

// State is the state of a replica set's entity. It is carried across Continue-As-New.
type State struct {
	Object contract.Object                 `json:"object"`
	Set    *contract.ReplicaSetObservation `json:"set,omitempty"`
	// Next is a newer object of the same name. The entity continues with it when this one is gone.
	Next *contract.ReplicaSetObservation `json:"next,omitempty"`
	// NeverSeen means that the set was gone before it was observed: a late signal has started this entity.
	NeverSeen bool `json:"missed,omitempty"`

	// Replicas are the instances that the set controls, might adopt or has just released, ordered by UID.
	Replicas []contract.ReplicaObservation `json:"replicas,omitempty"`
	// Tombstones has the UIDs of the last gone replicas, so that a late observation does not bring them back.
	Tombstones []string `json:"tombstones,omitempty"`
	// Known means that the replicas were read, and that no observation may have been lost since.
	Known bool `json:"known,omitempty"`
	// More is the number of replicas beyond contract.MaxReplicasSeen when they were last read.
	More int `json:"more,omitempty"`
	// Ordinal is the highest that was given to a replica.
	Ordinal int `json:"ordinal,omitempty"`

	// Open is the open transition, and Count the number of transitions so far.
	Open  *Transition `json:"open,omitempty"`
	Count int         `json:"count,omitempty"`
	// Last is the outcome of the last transition.
	Last    *entity.Outcome `json:"last,omitempty"`
	Failure *entity.Failure `json:"failure,omitempty"`
	// CrashLoop counts replicas in a row that ended without ever having run. The next is not made before
	// CrashLoopUntil.
	CrashLoop      int       `json:"crashLoop,omitempty"`
	CrashLoopUntil time.Time `json:"crashLoopUntil,omitzero"`

	// Scale and Scaled have who scaled the set past the webhooks that record it: see actor.go.
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
	// Replicas is the desired number. From and Make are the ordinals that it gives out.
	Replicas int `json:"replicas"`
	From     int `json:"from,omitempty"`
	Make     int `json:"make,omitempty"`
	// Unseen are those ordinals of which no instance was observed yet.
	Unseen []int `json:"unseen,omitempty"`
	// Remove has the UIDs of surplus replicas, Finished of those that have ended by themselves.
	Remove   []string `json:"remove,omitempty"`
	Finished []string `json:"finished,omitempty"`
	// Reported is the progress that was last signalled to the child.
	Reported contract.ReplicateProgress `json:"reported,omitzero"`
}

// openTransition returns the open transition, or nil.
func (s *State) openTransition() *entity.Transition {
	if s.Open == nil {
		return nil
	}
	return &s.Open.Transition
}

// observeSet folds in an observation of the object.
func (s *State) observeSet(o contract.ReplicaSetObservation) {
	newEpoch := s.AdvanceObjectEpoch(o.Epoch)
	if s.Set == nil {
		if s.NeverSeen = o.Gone; !o.Gone {
			s.adopt(o)
		}
		return
	}
	now, next := entity.Track(s.Set, s.Next, o, newEpoch)
	s.Next = next
	switch {
	case !newEpoch || o.Gone:
	case o.UID == s.Object.UID:
		defer s.markUnknown()
	default:
		now = entity.AsGone(now) // the set itself needs no read: the activities that change its instances read it
	}
	s.setSet(now)
}

// markUnknown has the replicas read again and the status written again: what is known of both may be outdated.
func (s *State) markUnknown() {
	s.NoteRead() // the activity reads them
	s.Known, s.OutcomeUnknown = false, true
	s.Replicas, s.Tombstones = nil, nil
	s.openTransition().AskNow()
}

// setSet replaces the set by a newer observation.
func (s *State) setSet(o *contract.ReplicaSetObservation) {
	if o.Generation != s.Set.Generation {
		s.retryFailure()
		s.matchScaleReport(*o)
	}
	if held, ok := conditions.Get(o.Conditions, contract.ConditionHeld); ok && o != s.Set && !o.Gone &&
		s.HasLostHold(&held) {
		s.Hold = entity.HoldShown(&held)
		s.markUnknown()
	}
	s.Set = o
}

// retryFailure makes a failed step due at once, after the specification has changed.
func (s *State) retryFailure() {
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

// successor returns the state with which the entity continues for the newer object. The known instances stay, and are
// read again.
func (s *State) successor() State {
	n := State{
		Object: contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name},
		Memory: s.Memory.Next(),
	}
	if s.Next != nil {
		n.adopt(*s.Next)
	}
	return n
}

// observeReplicas folds in an observation of instances.
func (s *State) observeReplicas(o contract.ReplicasObservation) {
	if s.AdvanceEpoch(o.Epoch) {
		s.markUnknown()
	}
	for _, r := range o.Replicas {
		s.observeReplica(r)
	}
	if o.Resync {
		s.Known = false
	}
}

// observeReplica folds in the observation of one instance. Of two with the same version the later one counts: the
// selector may have changed in between.
func (s *State) observeReplica(o contract.ReplicaObservation) {
	if s.Object.UID == "" {
		return // they are read after the object was observed
	}
	i, known := slices.BinarySearchFunc(s.Replicas, o.UID, byUID)
	if o.Gone {
		if known {
			s.Replicas = slices.Delete(s.Replicas, i, i+1)
			s.findMore()
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
	s.recordOrdinal(o)
	if !s.isRelevant(o) && !known {
		return
	}
	switch {
	case known && s.isRelevant(o):
		s.Replicas[i] = o
	case known:
		s.Replicas = slices.Delete(s.Replicas, i, i+1)
	case s.makeRoom(o):
		i, _ = slices.BinarySearchFunc(s.Replicas, o.UID, byUID)
		s.Replicas = slices.Insert(s.Replicas, i, o)
	}
}

// makeRoom reports whether another instance may be added, and drops one that the set might adopt if it needs the room
// for one of its own.
func (s *State) makeRoom(o contract.ReplicaObservation) bool {
	if len(s.Replicas) < contract.MaxReplicasSeen {
		return true
	}
	s.More++
	free := slices.IndexFunc(s.Replicas, func(r contract.ReplicaObservation) bool { return !s.isController(r) })
	if free < 0 || !s.isController(o) {
		return false
	}
	s.Replicas = slices.Delete(s.Replicas, free, free+1)
	return true
}

// findMore has the replicas read again after some were handled, if there are more than the state has.
func (s *State) findMore() {
	if s.More > 0 {
		s.Known = false
	}
}

func byUID(r contract.ReplicaObservation, uid string) int { return strings.Compare(r.UID, uid) }

func (s *State) addTombstone(o contract.ReplicaObservation) {
	s.recordOrdinal(o)
	if slices.Contains(s.Tombstones, o.UID) {
		return
	}
	s.Tombstones = append(s.Tombstones, o.UID)
	if over := len(s.Tombstones) - maxTombstones; over > 0 {
		s.Tombstones = slices.Delete(s.Tombstones, 0, over)
	}
}

// recordOrdinal records the ordinal of an instance that this set has made.
func (s *State) recordOrdinal(o contract.ReplicaObservation) {
	if o.OwnerUID != s.Object.UID || o.Ordinal == 0 {
		return
	}
	s.Ordinal = max(s.Ordinal, o.Ordinal)
	if t := s.Open; t != nil {
		t.Unseen = slices.DeleteFunc(t.Unseen, func(n int) bool { return n == o.Ordinal })
	}
}

// isRelevant reports whether an instance is this set's, or may be adopted.
func (s *State) isRelevant(o contract.ReplicaObservation) bool {
	return o.OwnerUID == s.Object.UID || o.OwnerUID == "" && o.Matches
}

// applyFound folds in the complete list of the replicas.
func (s *State) applyFound(r contract.FindReplicasResult) {
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
