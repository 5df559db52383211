package domainstate

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// Store has the current domain with a sequence number that grows by one with each change. It is safe for concurrent
// use.
type Store struct {
	mu      sync.Mutex
	domain  *rpc.Domain
	changed chan struct{} // closed and replaced at each change
	closed  bool
}

// New returns a Store without a domain, at sequence 1.
func New() *Store {
	return &Store{
		domain:  &rpc.Domain{Sequence: 1, State: rpc.DomainState_DOMAIN_STATE_ABSENT},
		changed: make(chan struct{}),
	}
}

// Update calls change to write to the domain, and notifies the watchers if that made a difference.
func (s *Store) Update(change func(*rpc.Domain)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := proto.CloneOf(s.domain)
	change(next)
	next.Sequence = s.domain.GetSequence()
	if proto.Equal(next, s.domain) {
		return
	}
	next.Sequence++
	s.domain = next
	s.wake()
}

// Close ends all watches, once each watcher has seen the last state.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.wake()
	}
}

// Domain returns the current domain. The caller must not write to it.
func (s *Store) Domain() *rpc.Domain {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.domain
}

// Next waits until there is a state newer than the given sequence. It skips states that were replaced meanwhile. It
// returns nil after Close.
func (s *Store) Next(ctx context.Context, after uint64) (*rpc.Domain, error) {
	for {
		s.mu.Lock()
		domain, changed, closed := s.domain, s.changed, s.closed
		s.mu.Unlock()
		if domain.GetSequence() > after {
			return domain, nil
		}
		if closed {
			return nil, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *Store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}
