package crdwatch

import (
	"maps"
	"time"
)

// endsKept is for how long an end that was sent is not asked about and sent again. What Temporal loses meanwhile is
// sent again when it answers again, or in a new epoch.
const endsKept = resyncInterval

// ends is when an informer has seen the ends of objects, by their UIDs, lately. Their workflows have been sent it, and
// are about to take it in, which takes minutes where much is to be done: that they have not yet, or that Temporal's
// visibility, which lags then, still shows them, is no reason to ask the API server, and to send it again.
type ends struct {
	seen   map[string]time.Time
	purged time.Time
}

// add notes an end.
func (e *ends) add(uid string, now time.Time) {
	if e.seen == nil {
		e.seen = map[string]time.Time{}
	}
	e.seen[uid] = now
	if now.Sub(e.purged) >= endsKept {
		e.purged = now
		maps.DeleteFunc(e.seen, func(_ string, at time.Time) bool { return now.Sub(at) >= endsKept })
	}
}

// told says whether a workflow that has run since then was sent an end lately. One that has begun after it may know
// nothing of it; the zero time is that of one that is not known to run.
func (e *ends) told(uid string, since, now time.Time) bool {
	at, ok := e.seen[uid]
	return ok && now.Sub(at) < endsKept && !since.IsZero() && since.Before(at)
}
