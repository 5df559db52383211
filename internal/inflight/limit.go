package inflight

import (
	"fmt"
	"sync"
)

// Quota is how much one owner may have in flight.
type Quota struct {
	// Owner is a name that no other has: "user anna".
	Owner string
	// Max is how much it may have in flight.
	Max int
}

// Limit counts what is in flight. The zero value counts nothing yet. It is safe for concurrent use, and is not copied.
type Limit struct {
	mu      sync.Mutex
	all     int
	byOwner map[string]int
}

// ExceededError says that there is as much in flight as there may be.
type ExceededError struct {
	// Owner is whose quota is used up, "" when it is the limit for all.
	Owner string
	// InFlight is how much there is.
	InFlight int
}

func (e *ExceededError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("%d are in flight, and no more may be", e.InFlight)
	}
	return fmt.Sprintf("%s has %d in flight, and may not have more", e.Owner, e.InFlight)
}

// Acquire counts one more in flight, for every owner; release takes it off again, once. Otherwise the error is an
// *ExceededError.
func (l *Limit) Acquire(limit int, quotas ...Quota) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= limit {
		return nil, &ExceededError{InFlight: l.all}
	}
	for _, q := range quotas {
		if n := l.byOwner[q.Owner]; n >= q.Max {
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

// Quarter of a limit, at least one.
func Quarter(limit int) int { return max(1, limit/4) }
