package board

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// Board is the present domain with a sequence number that grows by one with each change. It is safe for concurrent use.
type Board struct {
	mu      sync.Mutex
	domain  *rpc.Domain
	changed chan struct{} // closed and replaced at each change
	closed  bool
}

// New has no domain, at sequence 1.
func New() *Board {
	return &Board{
		domain:  &rpc.Domain{Sequence: 1, State: rpc.DomainState_DOMAIN_STATE_ABSENT},
		changed: make(chan struct{}),
	}
}

// Update lets change write to the domain, and tells the watchers if that made a difference.
func (b *Board) Update(change func(*rpc.Domain)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := proto.CloneOf(b.domain)
	change(next)
	next.Sequence = b.domain.GetSequence()
	if proto.Equal(next, b.domain) {
		return
	}
	next.Sequence++
	b.domain = next
	b.wake()
}

// Close ends all watching, once each watcher has seen the last state.
func (b *Board) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		b.wake()
	}
}

// Domain returns the domain as it is. The caller must not write to it.
func (b *Board) Domain() *rpc.Domain {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.domain
}

// Next waits until there is a state newer than the given sequence. It skips states that were replaced meanwhile. It returns nil when
// there will be none.
func (b *Board) Next(ctx context.Context, after uint64) (*rpc.Domain, error) {
	for {
		b.mu.Lock()
		domain, changed, closed := b.domain, b.changed, b.closed
		b.mu.Unlock()
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

func (b *Board) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}
