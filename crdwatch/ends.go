package crdwatch

import (
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

// endsKept is for how long an end that was sent is not asked about and sent again. What Temporal loses meanwhile is
// sent again when it answers again, or in a new epoch.
const endsKept = resyncInterval

// ends is when an informer has seen the ends of objects, by their UIDs, lately. Their workflows have been sent it, and
// are about to take it in, which takes minutes where much is to be done: that they have not yet, or that Temporal's
// visibility, which lags then, still shows them, is no reason to ask the API server, and to send it again.
type ends struct {
	clock clock.Clock
	seen  *cache.Expiring
}

func newEnds(c clock.Clock) ends { return ends{clock: c, seen: cache.NewExpiringWithClock(c)} }

// add notes an end.
func (e ends) add(uid string) { e.seen.Set(uid, e.clock.Now(), endsKept) }

// told says whether a workflow that has run since then was sent an end lately. One that has begun after it may know
// nothing of it; the zero time is that of one that is not known to run.
func (e ends) told(uid string, since time.Time) bool {
	at, ok := e.seen.Get(uid)
	return ok && !since.IsZero() && since.Before(at.(time.Time))
}
