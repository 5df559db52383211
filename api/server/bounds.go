package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/virtflow/virtflow/api/schema"
	"github.com/virtflow/virtflow/internal/inflight"
)

// What reviews may take of this process at once.
const (
	// maxReviews is how many are answered at once; each takes a core for some milliseconds.
	maxReviews = 32
	// maxBodies is how much of the bodies of all reviews may be here at once, in bytes, and maxBody how much of one: a
	// byte more than the library, which says so, takes.
	maxBodies = 64 << 20
	maxBody   = 7<<20 + 1
	// maxParts is how many parts all that are answered at once may have, which take some hundred bytes each when they
	// are decoded: two reviews of the largest objects, each as it is and as it was.
	maxParts = 4 * schema.MaxParts
	// reviewsEach, bodiesEach and partsEach are the same for one address: any pod can reach this port, and none keeps
	// the API server from being answered.
	reviewsEach = maxReviews / 4
	bodiesEach  = maxBodies / 4
	partsEach   = maxParts / 2
	// reviewWait is how long a review waits for others, in all, before it is turned away: the API server itself gives
	// up after ten seconds.
	reviewWait = 9 * time.Second
)

var errBusy = errors.New("too many admission reviews at once")

// bounds keep the memory and the time that reviews take within limits, for all clients and for each address. A client
// that sends slowly holds what it has sent, and is not among those that are answered.
type bounds struct {
	all bound

	mu   sync.Mutex
	each map[string]*addressBound
}

type bound struct{ bodies, parts, reviews *semaphore.Weighted }

func newBound(bodies, parts, reviews int64) bound {
	return bound{semaphore.NewWeighted(bodies), semaphore.NewWeighted(parts), semaphore.NewWeighted(reviews)}
}

// addressBound is there while there are requests of its address.
type addressBound struct {
	bound
	requests int
}

func newBounds() *bounds {
	return &bounds{all: newBound(maxBodies, maxParts, maxReviews), each: map[string]*addressBound{}}
}

// of is the bound of an address, until done.
func (bs *bounds) of(address string) (b bound, done func()) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	a := bs.each[address]
	if a == nil {
		a = &addressBound{bound: newBound(bodiesEach, partsEach, reviewsEach)}
		bs.each[address] = a
	}
	a.requests++
	return a.bound, func() {
		bs.mu.Lock()
		defer bs.mu.Unlock()
		if a.requests--; a.requests == 0 {
			delete(bs.each, address)
		}
	}
}

// handler reads a review before it counts as one that is answered. Whoever exceeds a limit for longer than wait gets
// 429: the API server reports that it could not ask.
func (bs *bounds) handler(next http.Handler, wait time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own, done := bs.of(inflight.Host(r.RemoteAddr))
		defer done()
		// A connection that cannot have a deadline is ended by the server's own.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		body := &boundedBody{from: http.MaxBytesReader(nil, r.Body, maxBody),
			limits: []*semaphore.Weighted{own.bodies, bs.all.bodies}, ctx: r.Context(), wait: wait}
		defer body.release()
		var whole bytes.Buffer
		_, err := whole.ReadFrom(body)
		var long *http.MaxBytesError
		switch {
		case errors.Is(err, errBusy):
			tooMany(w, errBusy.Error())
			return
		case errors.As(err, &long), err == nil:
			r.Body = io.NopCloser(&whole)
			if whole.Len() == 0 {
				r.Body = http.NoBody
			}
		default:
			r.Body = io.NopCloser(io.MultiReader(&whole, failed{err}))
			next.ServeHTTP(w, r) // which says so, and has nothing to review
			return
		}
		began := time.Now()
		release, err := acquire(r.Context(), body.wait, 1, own.reviews, bs.all.reviews)
		if err != nil {
			tooMany(w, errBusy.Error())
			return
		}
		defer release()
		parts := int64(schema.Parts(whole.Bytes()))
		if parts > partsEach {
			http.Error(w, fmt.Sprintf("the review has more than %d parts", partsEach), http.StatusRequestEntityTooLarge)
			return
		}
		release, err = acquire(r.Context(), body.wait-time.Since(began), parts, own.parts, bs.all.parts)
		if err != nil {
			tooMany(w, errBusy.Error())
			return
		}
		defer release()
		next.ServeHTTP(w, r)
	})
}

// acquire takes n of each limit, or of none.
func acquire(
	ctx context.Context, wait time.Duration, n int64, limits ...*semaphore.Weighted,
) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for i, l := range limits {
		if l.TryAcquire(n) || l.Acquire(ctx, n) == nil {
			continue
		}
		for _, held := range limits[:i] {
			held.Release(n)
		}
		return nil, errBusy
	}
	return func() {
		for _, l := range limits {
			l.Release(n)
		}
	}, nil
}

// boundedBody reads a body, and counts what has come against limits: who has sent nothing holds nothing.
type boundedBody struct {
	from   io.Reader
	limits []*semaphore.Weighted
	ctx    context.Context
	wait   time.Duration // what is left of it
	held   int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if n == 0 {
		return 0, err
	}
	began := time.Now()
	_, busy := acquire(b.ctx, b.wait, int64(n), b.limits...)
	b.wait -= time.Since(began)
	if busy != nil {
		return 0, busy
	}
	b.held += int64(n)
	return n, err
}

func (b *boundedBody) release() {
	for _, l := range b.limits {
		l.Release(b.held)
	}
}

// failed is the rest of a body that did not come.
type failed struct{ err error }

// Read implements io.Reader.
func (f failed) Read([]byte) (int, error) { return 0, f.err }
