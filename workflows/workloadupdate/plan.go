package workloadupdate

import (
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/guests"
	"github.com/virtflow/virtflow/workflows/waits"
)

// The steps of a workload update.
const (
	actMove  entity.Action = "make migrations"
	actEvict entity.Action = "evict pods"
)

const (
	// lookWhileMoving is how often the instances with the label are read while some of them leave, lookWhileWaiting
	// while some are about to, and lookWhileIdle how often all are otherwise. crdwatch signals when others are
	// outdated.
	lookWhileMoving  = 10 * time.Second
	lookWhileWaiting = time.Minute
	lookWhileIdle    = 5 * time.Minute
	// settleFor is how long no guest is moved after the image has changed. Meanwhile control workers and crdwatch of
	// two releases may run side by side, and one of the older release would move guests back.
	settleFor = 30 * time.Second
)

// decide returns the next step. It changes nothing.
func (s *State) decide(now time.Time) entity.Decision {
	return s.Failure.WithBackoff(s.decideNext(now), now, nil)
}

func (s *State) decideNext(now time.Time) entity.Decision {
	look := s.lookAt()
	switch {
	case s.Observed.Image == "":
		return entity.Decision{Waiting: waits.For(waits.FirstObservation, "the image that new launchers get")}
	case s.Stale, !now.Before(look):
		return entity.Decision{Action: entity.ActRead, Why: "guests may have left, or come"}
	case s.Whole && len(s.Guests)+s.More == 0:
		return entity.Decision{Action: entity.ActFinish, Why: "every launcher runs the current launcher image"}
	case s.Hold != nil:
		return entity.Decision{WakeAt: look, Waiting: waits.For(waits.Release, "workload update", s.Hold.Message)}
	case now.Before(s.Settles):
		return entity.Decision{WakeAt: s.Settles, Waiting: waits.For(waits.SettledRelease)}.WakeBy(look)
	}
	chosen, nextMigration := s.movable(now)
	if len(chosen) > 0 {
		return entity.Decision{Action: actMove, Why: "their turn has come"}
	}
	chosen, nextEviction := s.evictable(now)
	if len(chosen) > 0 {
		return entity.Decision{Action: actEvict, Why: "they cannot be moved, and their turn has come"}
	}
	return entity.Decision{WakeAt: look, Waiting: s.waiting()}.WakeBy(nextMigration).WakeBy(nextEviction)
}

// lookAt returns when the guests are to be read again.
func (s *State) lookAt() time.Time {
	switch {
	case s.Seen.IsZero():
		return s.Seen
	case s.Guests.Count(guests.Migrating, guests.Leaving) > 0:
		return s.Seen.Add(lookWhileMoving)
	case s.Hold == nil && (s.Guests.Count(guests.Waiting) > 0 || s.More > 0 && s.Strategy.Acts()):
		return s.Seen.Add(lookWhileWaiting)
	default:
		return s.Seen.Add(lookWhileIdle)
	}
}

// lookAtAll reports whether every instance is to be read, with the label or without it.
func (s *State) lookAtAll(now time.Time) bool {
	return s.Seen.IsZero() || s.All || !now.Before(s.Seen.Add(lookWhileIdle))
}

// movable returns the guests whose migrations are to be made now, in their order, and when the next one may be that
// waits for its back-off (zero: none does).
func (s *State) movable(now time.Time) (chosen []contract.Movable, at time.Time) {
	free := s.Strategy.Limit - s.Guests.Count(guests.Migrating)
	return s.Guests.Next(now, free, func(g *guests.Guest) bool { return s.leavesByMigration(g) && g.Running })
}

// evictable returns the guests that are to be evicted now: a batch of them. at is when the next one may be (zero: none
// is to be evicted).
func (s *State) evictable(now time.Time) (chosen []contract.Movable, at time.Time) {
	chosen, at = s.Guests.Next(now, s.Strategy.Batch, func(g *guests.Guest) bool {
		return s.leavesByEviction(g) && g.Running
	})
	next := s.Batch.Add(time.Duration(s.Strategy.IntervalSeconds) * time.Second)
	if len(chosen) > 0 && !s.Batch.IsZero() && now.Before(next) {
		return nil, next
	}
	return chosen, at
}

func (s *State) waiting() waits.Wait {
	switch {
	case s.Guests.Count(guests.Migrating, guests.Leaving) > 0:
		return waits.For(waits.LeavingGuests)
	case s.Guests.Count(guests.Waiting)+s.More > 0:
		return waits.For(waits.LaterGuests)
	default:
		return waits.For(waits.BlockedUpdate)
	}
}
