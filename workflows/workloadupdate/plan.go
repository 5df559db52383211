package workloadupdate

import (
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/guests"
)

// The steps of a workload update.
const (
	actMove  entity.Action = "make migrations"
	actEvict entity.Action = "evict pods"
)

const (
	// lookWhileMoving is how often those that have the label are looked at while some of them leave, lookWhileWaiting
	// while some are about to, and lookWhileIdle how often all are otherwise. crdwatch tells when others are outdated.
	lookWhileMoving  = 10 * time.Second
	lookWhileWaiting = time.Minute
	lookWhileIdle    = 5 * time.Minute
	// settleFor is how long nobody is moved after the image has changed. Meanwhile control workers and crdwatch of two
	// releases may run side by side, and an image of before would bring guests back.
	settleFor = 30 * time.Second
)

// decide says what is to be done next. It changes nothing.
func (s *State) decide(now time.Time) entity.Decision {
	return s.Failure.HoldBack(s.next(now), now, nil)
}

func (s *State) next(now time.Time) entity.Decision {
	look := s.lookAt()
	switch {
	case s.Observed.Image == "":
		return entity.Decision{Waiting: "the first word of which image new launchers get"}
	case s.Stale, !now.Before(look):
		return entity.Decision{Action: entity.ActRead, Why: "guests may have left, or come"}
	case s.Whole && len(s.Guests)+s.More == 0:
		return entity.Decision{Action: entity.ActFinish, Why: "every launcher is of the image that new ones get"}
	case s.Hold != nil:
		return entity.Decision{WakeAt: look, Waiting: "a person: the workload update is " + s.Hold.Message}
	case now.Before(s.Settles):
		return entity.Decision{WakeAt: s.Settles, Waiting: "the release to be everywhere"}.By(look)
	}
	chosen, at := s.movable(now)
	if len(chosen) > 0 {
		return entity.Decision{Action: actMove, Why: "their turn has come"}
	}
	chosen, again := s.evictable(now)
	if len(chosen) > 0 {
		return entity.Decision{Action: actEvict, Why: "they cannot be moved, and their turn has come"}
	}
	return entity.Decision{WakeAt: look, Waiting: s.waiting()}.By(at).By(again)
}

// lookAt is when the guests are to be looked at again.
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

// lookAtAll says that every instance is to be looked at, whether it has the label or not.
func (s *State) lookAtAll(now time.Time) bool {
	return s.Seen.IsZero() || s.All || !now.Before(s.Seen.Add(lookWhileIdle))
}

// movable are the guests whose migrations are to be made now, in their order, and when the next may be that waits for
// its back-off (zero: none does).
func (s *State) movable(now time.Time) (chosen []contract.Movable, at time.Time) {
	free := s.Strategy.Limit - s.Guests.Count(guests.Migrating)
	return s.Guests.Next(now, free, func(g *guests.Guest) bool { return s.migrates(g) && g.Running })
}

// evictable are the guests that are to be evicted now: a batch of them. At is when the next may be (zero: there is
// nobody for it).
func (s *State) evictable(now time.Time) (chosen []contract.Movable, at time.Time) {
	chosen, at = s.Guests.Next(now, s.Strategy.Batch, func(g *guests.Guest) bool {
		return s.evicts(g) && g.Running
	})
	next := s.Batch.Add(time.Duration(s.Strategy.IntervalSeconds) * time.Second)
	if len(chosen) > 0 && !s.Batch.IsZero() && now.Before(next) {
		return nil, next
	}
	return chosen, at
}

func (s *State) waiting() string {
	switch {
	case s.Guests.Count(guests.Migrating, guests.Leaving) > 0:
		return "those that leave"
	case s.Guests.Count(guests.Waiting)+s.More > 0:
		return "those whose turn comes later"
	default:
		return "somebody to change what blocks those that are left, or to restart them"
	}
}
