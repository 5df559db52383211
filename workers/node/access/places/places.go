package places

import (
	"fmt"
	"sync"
)

// Share is what one owner may have.
type Share struct {
	// Of is the owner, in words that name it among all others: "user anna".
	Of string
	// Most is how many places it gets.
	Most int
}

// Places are those that are taken. The zero value has none taken. They are safe for concurrent use, and are not copied.
type Places struct {
	mu    sync.Mutex
	all   int
	taken map[string]int
}

// FullError says that there is no place.
type FullError struct {
	// Of is the owner whose share is taken, "" when all places are.
	Of string
	// Taken is how many are.
	Taken int
}

func (f *FullError) Error() string {
	if f.Of == "" {
		return fmt.Sprintf("all %d places are taken", f.Taken)
	}
	return fmt.Sprintf("%s has %d places", f.Of, f.Taken)
}

// Take takes a place, which counts for every owner; leave gives it back, once. Otherwise the error is a *FullError.
func (p *Places) Take(most int, shares ...Share) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= most {
		return nil, &FullError{Taken: p.all}
	}
	for _, s := range shares {
		if n := p.taken[s.Of]; n >= s.Most {
			return nil, &FullError{Of: s.Of, Taken: n}
		}
	}
	if p.taken == nil {
		p.taken = map[string]int{}
	}
	p.all++
	for _, s := range shares {
		p.taken[s.Of]++
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		for _, s := range shares {
			if p.taken[s.Of]--; p.taken[s.Of] == 0 {
				delete(p.taken, s.Of)
			}
		}
	}, nil
}

// Quarter of a number of places, at least one.
func Quarter(all int) int { return max(1, all/4) }
