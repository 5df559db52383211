package diff

import (
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

// sentEndsTTL is for how long an end that was sent is neither read from the API server nor sent again. What Temporal
// loses in that time is redelivered when it answers again, or in a new epoch.
const sentEndsTTL = resyncInterval

// sentEnds has when an informer has seen the ends of objects, by UID. Their workflows were sent them, and process them
// within minutes under load. In that time the workflow still runs, or Temporal's visibility, which lags, still lists
// it; that is no reason to read from the API server and send the end again.
type sentEnds struct {
	clock clock.Clock
	seen  *cache.Expiring
}

func newSentEnds(c clock.Clock) sentEnds {
	return sentEnds{clock: c, seen: cache.NewExpiringWithClock(c)}
}

// add records an end.
func (e sentEnds) add(uid string) { e.seen.Set(uid, e.clock.Now(), sentEndsTTL) }

// hasSent reports whether a workflow that has run since then was sent an end. A workflow that has begun later may not
// know of the end; the zero time stands for one that is not known to run.
func (e sentEnds) hasSent(uid string, since time.Time) bool {
	at, ok := e.seen.Get(uid)
	return ok && !since.IsZero() && since.Before(at.(time.Time))
}
