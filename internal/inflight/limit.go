package inflight

import (
	"cmp"
	"fmt"
	"sync"
)

// Quota bounds how much one owner may have in flight.
type Quota struct {
	// Owner is a unique name: "user anna".
	Owner string
	// Max is how much it may have in flight; 0 means a quarter of what is free at the time, at least one. So owners
	// that use all they may, however many, leave some for another.
	Max int
}

// freePart is the divisor of what is free for an owner.
const freePart = 4

// Limit counts what is in flight. The zero value counts nothing yet. It is safe for concurrent use, and must not be
// copied.
type Limit struct {
	mu      sync.Mutex
	all     int
	byOwner map[string]int
}

// ExceededError means that a limit or a quota is reached.
type ExceededError struct {
	// Owner is the owner whose quota is reached, "" if it is the limit for all.
	Owner string
	// InFlight is how much is in flight.
	InFlight int
}

func (e *ExceededError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("%d are in flight, which is the limit", e.InFlight)
	}
	return fmt.Sprintf("%s has %d in flight, which is its quota", e.Owner, e.InFlight)
}

// Acquire counts one more in flight, for every owner; release subtracts it again, once. It returns an *ExceededError if
// that would exceed a limit.
func (l *Limit) Acquire(limit int, quotas ...Quota) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= limit {
		return nil, &ExceededError{InFlight: l.all}
	}
	for _, q := range quotas {
		if n := l.byOwner[q.Owner]; n >= cmp.Or(q.Max, (limit-l.all)/freePart, 1) {
			return nil, &ExceededError{Owner: q.Owner, InFlight: n}
		}
	}
	if l.byOwner == nil {
		l.byOwner = map[string]int{}
	}
	l.all++
	for _, q := range quotas {
		l.byOwner[q.Owner]++
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		for _, q := range quotas {
			if l.byOwner[q.Owner]--; l.byOwner[q.Owner] == 0 {
				delete(l.byOwner, q.Owner)
			}
		}
	}, nil
}
