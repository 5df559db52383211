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

// What reviews may take of this process at once.
const (
	// maxReviews is how many are answered at once; each takes a core for some milliseconds.
	maxReviews = 32
	// maxBodies is how much of the bodies of all reviews may be here at once, in bytes, and maxBody how much of one: a byte more than the
	// library, which says so, takes.
	maxBodies = 64 << 20
	maxBody   = 7<<20 + 1
	// strangersReviews and strangersBodies are the same for those that do not show that the API server sends them: room for one body of any
	// size, so that a version that does not put proofs into the paths yet is served.
	strangersReviews = 2
	strangersBodies  = 8 << 20
	// reviewWait is how long a review waits for others before it is turned away.
	reviewWait = 2 * time.Second
)

var errBusy = errors.New("too many admission reviews at once")

// bounds keep the memory and the time that reviews take within limits. A client that sends slowly holds what it has sent, and no place among
// those that are answered. Whoever does not prove to be the API server shares a part of its own, and takes nothing from the API server's.
type bounds struct{ proven, strangers part }

type part struct{ bodies, reviews *semaphore.Weighted }

func newBounds() *bounds {
	return &bounds{
		proven:    part{semaphore.NewWeighted(maxBodies), semaphore.NewWeighted(maxReviews)},
		strangers: part{semaphore.NewWeighted(strangersBodies), semaphore.NewWeighted(strangersReviews)},
	}
}

// bound reads a review before it takes a place for it. Whoever finds none is told so with 429: the API server reports that it could not ask.
func (bs *bounds) bound(next http.Handler, proven func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := bs.strangers
		if proven(r) {
			b = bs.proven
		}
		// A connection that cannot have a deadline is ended by the server's own.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		body := &bounded{from: http.MaxBytesReader(nil, r.Body, maxBody), room: b.bodies, ctx: r.Context()}
		defer func() { b.bodies.Release(body.held) }()
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
		ctx, cancel := context.WithTimeout(r.Context(), reviewWait)
		defer cancel()
		if b.reviews.Acquire(ctx, 1) != nil {
			tooMany(w, errBusy.Error())
			return
		}
		defer b.reviews.Release(1)
		next.ServeHTTP(w, r)
	})
}

// bounded reads a body, and takes room for what has come: who has sent nothing holds nothing. held is how much of it was taken.
type bounded struct {
	from io.Reader
	room *semaphore.Weighted
	ctx  context.Context
	held int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if n == 0 {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(b.ctx, reviewWait)
	defer cancel()
	if b.room.Acquire(ctx, int64(n)) != nil {
		return 0, errBusy
	}
	b.held += int64(n)
	return n, err
}

// failed is the rest of a body that did not come.
type failed struct{ err error }

// Read implements io.Reader.
func (f failed) Read([]byte) (int, error) { return 0, f.err }
