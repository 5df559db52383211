package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// What reviews may take of this process at once, whoever sends them.
const (
	// maxReviews is how many are answered at once; each takes a core for some milliseconds.
	maxReviews = 32
	// maxBodies is how much of the bodies of all reviews may be here at once, in bytes, and maxBody how much of one: a byte more than the
	// library, which says so, takes.
	maxBodies = 64 << 20
	maxBody   = 7<<20 + 1
	// chunk is in which portions room for a body is taken, as it comes.
	chunk = 32 << 10
	// reviewWait is how long a review waits for others before it is turned away.
	reviewWait = 2 * time.Second
)

var errBusy = errors.New("too many admission reviews at once")

// bounds keep the memory and the time that reviews take within limits. A client that sends slowly holds what it has sent, and no place among
// those that are answered.
type bounds struct{ bodies, reviews *semaphore.Weighted }

func newBounds() *bounds {
	return &bounds{bodies: semaphore.NewWeighted(maxBodies), reviews: semaphore.NewWeighted(maxReviews)}
}

// bound reads a review before it takes a place for it. Whoever finds none is told so with 429: the API server reports that it could not ask.
func (b *bounds) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A connection that cannot have a deadline is ended by the server's own.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		body := &bounded{from: http.MaxBytesReader(nil, r.Body, maxBody), room: b.bodies, ctx: r.Context()}
		defer func() { b.bodies.Release(body.held) }()
		var whole bytes.Buffer
		_, err := whole.ReadFrom(body)
		var long *http.MaxBytesError
		switch {
		case errors.Is(err, errBusy):
			busy(w)
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
		ctx, cancel := context.WithTimeout(r.Context(), reviewWait)
		defer cancel()
		if b.reviews.Acquire(ctx, 1) != nil {
			busy(w)
			return
		}
		defer b.reviews.Release(1)
		next.ServeHTTP(w, r)
	})
}

func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Connection", "close") // what is left of the body is not read
	http.Error(w, errBusy.Error(), http.StatusTooManyRequests)
}

// bounded reads a body for which there is room. held is how much of it was taken.
type bounded struct {
	from io.Reader
	room *semaphore.Weighted
	ctx  context.Context
	held int64
	free int
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.free == 0 {
		ctx, cancel := context.WithTimeout(b.ctx, reviewWait)
		defer cancel()
		if b.room.Acquire(ctx, chunk) != nil {
			return 0, errBusy
		}
		b.held += chunk
		b.free = chunk
	}
	n, err := b.from.Read(p[:min(len(p), b.free)])
	b.free -= n
	return n, err
}

// failed is the rest of a body that did not come.
type failed struct{ err error }

// Read implements io.Reader.
func (f failed) Read([]byte) (int, error) { return 0, f.err }
