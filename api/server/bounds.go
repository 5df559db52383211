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

// Limits of the resources that reviews use in this process at once.
const (
	// maxReviews is how many are answered at once; each uses a core for some milliseconds.
	maxReviews = 32
	// maxBodies bounds the bodies of all reviews in memory, in bytes, and maxBody that of one: a byte more than the
	// library accepts, which reports the error.
	maxBodies = 64 << 20
	maxBody   = 7<<20 + 1
	// maxParts bounds the parts of all reviews that are answered at once, which need some hundred bytes each when they
	// are decoded: two reviews of the largest objects, each with the new and the old object.
	maxParts = 4 * schema.MaxParts
	// Half of it is for the API servers' addresses: any pod can reach this port, and neither one nor many together may
	// keep the API server from being answered. reviewsEach, bodiesEach and partsEach bound one other address.
	othersPart  = 2
	reviewsEach = maxReviews / othersPart / 4
	bodiesEach  = maxBodies / othersPart / 2
	partsEach   = maxParts / 2
	// reviewWait is how long a review waits for others, in all, before it is refused: the API server itself gives up
	// after ten seconds.
	reviewWait = 9 * time.Second
)

var errBusy = errors.New("too many admission reviews at once")

// bounds limit the memory and the time that reviews use: for all clients, for each address, and for all addresses
// together that are no API server's. A client that sends slowly counts with what it has sent, and not among those that
// are answered.
type bounds struct {
	all, others bound
	isTrusted   func(host string) bool
	refused     func() // called for each review that gets 429

	mu   sync.Mutex
	each map[address]*addressBound
}

type address struct {
	host    string
	trusted bool
}

type bound struct{ bodies, parts, reviews *semaphore.Weighted }

func newBound(bodies, parts, reviews int64) bound {
	return bound{semaphore.NewWeighted(bodies), semaphore.NewWeighted(parts), semaphore.NewWeighted(reviews)}
}

// addressBound exists while there are requests of its address.
type addressBound struct {
	bound
	requests int
}

func newBounds(isTrusted func(host string) bool, refused func()) *bounds {
	return &bounds{all: newBound(maxBodies, maxParts, maxReviews),
		others:    newBound(maxBodies/othersPart, maxParts/othersPart, maxReviews/othersPart),
		isTrusted: isTrusted, refused: refused, each: map[address]*addressBound{}}
}

// limits are the bounds that apply to one client.
type limits []bound

func (l limits) bodies() (out []*semaphore.Weighted) {
	for _, b := range l {
		out = append(out, b.bodies)
	}
	return out
}

func (l limits) parts() (out []*semaphore.Weighted) {
	for _, b := range l {
		out = append(out, b.parts)
	}
	return out
}

func (l limits) reviews() (out []*semaphore.Weighted) {
	for _, b := range l {
		out = append(out, b.reviews)
	}
	return out
}

// boundsOf returns the bounds that apply to an address. done ends the request that they are for.
func (bs *bounds) boundsOf(host string) (l limits, done func()) {
	from := address{host, bs.isTrusted(host)}
	own, done := bs.ownBound(from)
	if from.trusted {
		return limits{own, bs.all}, done
	}
	return limits{own, bs.others, bs.all}, done
}

// ownBound returns the bound that an address has for itself. It exists until done is called for its last request.
func (bs *bounds) ownBound(from address) (b bound, done func()) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	a := bs.each[from]
	if a == nil {
		a = &addressBound{bound: newBound(bodiesEach, partsEach, reviewsEach)}
		if from.trusted {
			a.bound = newBound(maxBodies/trustedPart, maxParts/trustedPart, maxReviews/trustedPart)
		}
		bs.each[from] = a
	}
	a.requests++
	return a.bound, func() {
		bs.mu.Lock()
		defer bs.mu.Unlock()
		if a.requests--; a.requests == 0 {
			delete(bs.each, from)
		}
	}
}

// handler reads a review before it counts as one that is answered. A client that exceeds a limit for longer than wait
// gets 429: the API server reports that the webhook failed.
func (bs *bounds) handler(next http.Handler, wait time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own, done := bs.boundsOf(inflight.Host(r.RemoteAddr))
		defer done()
		// Without support for a deadline, the server's own ends the connection.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		body := &boundedBody{from: http.MaxBytesReader(nil, r.Body, maxBody),
			limits: own.bodies(), ctx: r.Context(), wait: wait}
		defer body.release()
		var whole bytes.Buffer
		_, err := whole.ReadFrom(body)
		var long *http.MaxBytesError
		switch {
		case errors.Is(err, errBusy):
			bs.refuseBusy(w)
			return
		case errors.As(err, &long), err == nil:
			r.Body = io.NopCloser(&whole)
			if whole.Len() == 0 {
				r.Body = http.NoBody
			}
		default:
			r.Body = io.NopCloser(io.MultiReader(&whole, failed{err}))
			next.ServeHTTP(w, r) // which reports the error, and reviews nothing
			return
		}
		began := time.Now()
		release, err := acquire(r.Context(), body.wait, 1, own.reviews()...)
		if err != nil {
			bs.refuseBusy(w)
			return
		}
		defer release()
		parts := int64(schema.Parts(whole.Bytes()))
		if parts > partsEach {
			http.Error(w, fmt.Sprintf("the review has more than %d parts", partsEach), http.StatusRequestEntityTooLarge)
			return
		}
		release, err = acquire(r.Context(), body.wait-time.Since(began), parts, own.parts()...)
		if err != nil {
			bs.refuseBusy(w)
			return
		}
		defer release()
		next.ServeHTTP(w, r)
	})
}

// refuseBusy answers a request that exceeds a bound, and counts it.
func (bs *bounds) refuseBusy(w http.ResponseWriter) {
	bs.refused()
	tooMany(w, errBusy.Error())
}

// acquire acquires n of each limit, or of none.
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

// boundedBody reads a body, and counts received bytes against limits: a client that has sent nothing counts with
// nothing.
type boundedBody struct {
	from   io.Reader
	limits []*semaphore.Weighted
	ctx    context.Context
	wait   time.Duration // the remaining time
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

// failed is the rest of a body that could not be read.
type failed struct{ err error }

// Read implements io.Reader.
func (f failed) Read([]byte) (int, error) { return 0, f.err }
