package drain

import (
	"cmp"
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/guests"
)

// The steps of a drain.
const (
	actMigrate entity.Action = "make migrations"
	actEvict   entity.Action = "evict a pod"
	actDelete  entity.Action = "cancel the migrations"
	actClear   entity.Action = "take back the evacuations"
)

const (
	// lookWhileMoving is how often the guests are looked at while some of them leave, lookWhileIdle while none does.
	lookWhileMoving = 10 * time.Second
	lookWhileIdle   = time.Minute
)

// decide says what is to be done next. It changes nothing.
func (s *State) decide(now time.Time) entity.Decision {
	return s.Failure.HoldBack(s.next(now), now, nil)
}

func (s *State) next(now time.Time) entity.Decision {
	look := s.lookAt()
	switch {
	case s.Gone:
		return entity.Decision{Action: entity.ActFinish, Why: "the node exists no more"}
	case s.Stale, !now.Before(look):
		return entity.Decision{Action: entity.ActRead, Why: "guests may have left, or come"}
	case s.Cancelled != nil:
		return s.undo()
	case s.More == 0 && s.Guests.Count(guests.Waiting, guests.Migrating, guests.Leaving, guests.Blocked) == 0:
		return entity.Decision{Action: entity.ActFinish, Why: "nobody is left"}
	case s.Paused != nil:
		return entity.Decision{WakeAt: look, Waiting: "the control " + contract.ControlResumeDrain}
	}
	chosen, at := s.movable(now)
	if len(chosen) > 0 {
		return entity.Decision{Action: actMigrate, Why: "their turn has come"}
	}
	uid, again := s.evictable(now)
	if uid != "" {
		return entity.Decision{Action: actEvict, Object: uid, Why: "no other is left to be moved"}
	}
	return entity.Decision{WakeAt: look, Waiting: s.waiting()}.By(at).By(again)
}

// lookAt is when the guests are to be looked at again.
func (s *State) lookAt() time.Time {
	if s.Seen.IsZero() {
		return s.Seen
	}
	if s.Guests.Count(guests.Migrating, guests.Leaving) > 0 {
		return s.Seen.Add(lookWhileMoving)
	}
	return s.Seen.Add(lookWhileIdle)
}

// movable are the guests whose migrations are to be made now, in their order, and when the next may be that waits for
// its back-off (zero: none does).
func (s *State) movable(now time.Time) (chosen []contract.Movable, at time.Time) {
	free := cmp.Or(s.Parallelism, s.Outbound, 1) - s.Guests.Count(guests.Migrating)
	return s.Guests.Next(now, free, func(g *guests.Guest) bool { return migrates(g) && g.Running })
}

// evictable is the guest that is to be evicted now, by its UID: one after the other, when none is left that moves. ""
// is none, and at is when the next may be that was refused (zero: none was).
func (s *State) evictable(now time.Time) (uid string, at time.Time) {
	if s.Scope != contract.ScopeAll || s.Guests.Count(guests.Migrating, guests.Leaving) > 0 ||
		slices.ContainsFunc(s.Guests, func(g guests.Guest) bool {
			return migrates(&g) && g.Standing == guests.Waiting
		}) {
		return "", at
	}
	chosen, at := s.Guests.Next(now, 1, func(g *guests.Guest) bool {
		return !migrates(g) && g.Strategy != strategyMigrate
	})
	if len(chosen) > 0 {
		uid = chosen[0].VMI.UID
	}
	return uid, at
}

// undo is what is to be done of a drain that was cancelled: its migrations are cancelled, and those that are left are
// not asked to leave any more.
func (s *State) undo() entity.Decision {
	switch {
	case !s.Deleted && len(s.migrations()) > 0:
		return entity.Decision{Action: actDelete, Why: "the drain was cancelled"}
	case !s.Cleared && len(s.marked()) > 0:
		return entity.Decision{Action: actClear, Why: "the drain was cancelled"}
	default:
		return entity.Decision{Action: entity.ActFinish, Why: "it was cancelled"}
	}
}

// migrations are those that were made for the node and have not ended.
func (s *State) migrations() []contract.Object {
	var out []contract.Object
	for _, g := range s.Guests {
		if g.Migration.UID != "" && g.Evacuates {
			out = append(out, g.Migration)
		}
	}
	return out
}

// marked are the instances that are asked to leave the node, and are not somebody else's to move.
func (s *State) marked() []contract.Object {
	var out []contract.Object
	for _, g := range s.Guests {
		if g.Marked && g.Standing != guests.Others {
			out = append(out, g.VMI)
		}
	}
	return out
}

func (s *State) waiting() string {
	switch {
	case s.Guests.Count(guests.Migrating, guests.Leaving) > 0:
		return "those that leave"
	case s.Guests.Count(guests.Waiting)+s.More > 0:
		return "those whose turn comes later"
	default:
		return "somebody to change what blocks those that are left"
	}
}
