package drain

import (
	"cmp"
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/guests"
	"github.com/virtflow/virtflow/workflows/waits"
)

// The steps of a drain.
const (
	actMigrate entity.Action = "make migrations"
	actEvict   entity.Action = "evict a pod"
	actDelete  entity.Action = "cancel the migrations"
	actClear   entity.Action = "take back the evacuations"
)

const (
	// lookWhileMoving is how often the guests are read while some of them leave, lookWhileIdle while none does.
	lookWhileMoving = 10 * time.Second
	lookWhileIdle   = time.Minute
)

// decide returns the next step. It changes nothing.
func (s *State) decide(now time.Time) entity.Decision {
	return s.Failure.WithBackoff(s.decideNext(now), now, nil)
}

func (s *State) decideNext(now time.Time) entity.Decision {
	look := s.lookAt()
	switch {
	case s.Gone:
		return entity.Decision{Action: entity.ActFinish, Why: "the node no longer exists"}
	case s.Stale, !now.Before(look):
		return entity.Decision{Action: entity.ActRead, Why: "guests may have left, or come"}
	case s.Cancelled != nil:
		return s.decideUndo()
	case s.More == 0 && s.Guests.Count(guests.Waiting, guests.Migrating, guests.Leaving, guests.Blocked) == 0:
		return entity.Decision{Action: entity.ActFinish, Why: "no guest is left"}
	case s.Paused != nil:
		return entity.Decision{WakeAt: look, Waiting: waits.For(waits.ResumedDrain, contract.ControlResumeDrain)}
	}
	chosen, nextMigration := s.movable(now)
	if len(chosen) > 0 {
		return entity.Decision{Action: actMigrate, Why: "their turn has come"}
	}
	uid, nextEviction := s.evictable(now)
	if uid != "" {
		return entity.Decision{Action: actEvict, Object: uid, Why: "no guest is left that can migrate"}
	}
	return entity.Decision{WakeAt: look, Waiting: s.waiting()}.WakeBy(nextMigration).WakeBy(nextEviction)
}

// lookAt returns when the guests are to be read again.
func (s *State) lookAt() time.Time {
	if s.Seen.IsZero() {
		return s.Seen
	}
	if s.Guests.Count(guests.Migrating, guests.Leaving) > 0 {
		return s.Seen.Add(lookWhileMoving)
	}
	return s.Seen.Add(lookWhileIdle)
}

// movable returns the guests whose migrations are to be made now, in their order, and when the next one may be that
// waits for its back-off (zero: none does).
func (s *State) movable(now time.Time) (chosen []contract.Movable, at time.Time) {
	free := cmp.Or(s.Parallelism, s.Outbound, 1) - s.Guests.Count(guests.Migrating)
	return s.Guests.Next(now, free, func(g *guests.Guest) bool { return leavesByMigration(g) && g.Running })
}

// evictable returns the UID of the guest that is to be evicted now: one after the other, when none is left that moves.
// "" is none, and at is when the next one may be that was refused (zero: none was).
func (s *State) evictable(now time.Time) (uid string, at time.Time) {
	if s.Scope != contract.ScopeAll || s.Guests.Count(guests.Migrating, guests.Leaving) > 0 ||
		slices.ContainsFunc(s.Guests, func(g guests.Guest) bool {
			return leavesByMigration(&g) && g.Standing == guests.Waiting
		}) {
		return "", at
	}
	chosen, at := s.Guests.Next(now, 1, func(g *guests.Guest) bool {
		return !leavesByMigration(g) && g.Strategy != strategyMigrate
	})
	if len(chosen) > 0 {
		uid = chosen[0].VMI.UID
	}
	return uid, at
}

// decideUndo returns the next step of a drain that was cancelled: its migrations are cancelled, and the guests that are
// left are no longer asked to leave.
func (s *State) decideUndo() entity.Decision {
	switch {
	case !s.Deleted && len(s.openMigrations()) > 0:
		return entity.Decision{Action: actDelete, Why: "the drain was cancelled"}
	case !s.Cleared && len(s.markedGuests()) > 0:
		return entity.Decision{Action: actClear, Why: "the drain was cancelled"}
	default:
		return entity.Decision{Action: entity.ActFinish, Why: "it was cancelled"}
	}
}

// openMigrations returns the migrations that were made for the node and have not ended.
func (s *State) openMigrations() []contract.Object {
	var out []contract.Object
	for _, g := range s.Guests {
		if g.Migration.UID != "" && g.Evacuates {
			out = append(out, g.Migration)
		}
	}
	return out
}

// markedGuests returns the instances that are asked to leave the node and are not moved by another controller.
func (s *State) markedGuests() []contract.Object {
	var out []contract.Object
	for _, g := range s.Guests {
		if g.Marked && g.Standing != guests.Others {
			out = append(out, g.VMI)
		}
	}
	return out
}

func (s *State) waiting() waits.Wait {
	switch {
	case s.Guests.Count(guests.Migrating, guests.Leaving) > 0:
		return waits.For(waits.LeavingGuests)
	case s.Guests.Count(guests.Waiting)+s.More > 0:
		return waits.For(waits.LaterGuests)
	default:
		return waits.For(waits.BlockedGuests)
	}
}
