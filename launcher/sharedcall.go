package launcher

import (
	"context"
	"sync"
)

// sharedCall makes one call for all that ask while it is in progress. A caller that leaves at its deadline leaves
// nothing behind, however long the call hangs: singleflight's DoChan keeps a channel of each caller until then. It is
// safe for concurrent use.
type sharedCall[T any] struct {
	mu      sync.Mutex
	current *sharedResult[T] // nil: no call is in progress
}

type sharedResult[T any] struct {
	done  chan struct{} // closed when the call has ended
	value T
	err   error
}

// do returns the result of a call that was in progress, or of a new one. It returns the error of ctx if that ends
// first; the call continues. The result is that of all callers, so they must not change it.
func (s *sharedCall[T]) do(ctx context.Context, call func() (T, error)) (T, error) {
	r := s.join(call)
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (s *sharedCall[T]) join(call func() (T, error)) *sharedResult[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return s.current
	}
	r := &sharedResult[T]{done: make(chan struct{})}
	s.current = r
	go func() {
		r.value, r.err = call()
		s.mu.Lock()
		s.current = nil
		s.mu.Unlock()
		close(r.done)
	}()
	return r
}
