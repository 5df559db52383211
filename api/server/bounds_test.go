package server

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/virtflow/virtflow/api/admission"
	"github.com/virtflow/virtflow/api/subresources"
)

// TestLimitsConcurrentReviews: the others wait, and are refused after a while.
func TestLimitsConcurrentReviews(t *testing.T) {
	entered, leave := make(chan struct{}, 2*reviewsEach), make(chan struct{})
	b := newBounds(none, func() {})
	s := httptest.NewServer(b.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-leave
		_, _ = io.Copy(w, r.Body)
	}), reviewWait))
	defer s.Close()
	var all sync.WaitGroup
	answers := make([]string, reviewsEach)
	for i := range answers {
		all.Go(func() { answers[i] = post(t, s.URL, strings.NewReader("review")) })
	}
	for range answers {
		<-entered
	}
	require.Equal(t, "429 too many admission reviews at once\n", post(t, s.URL, strings.NewReader("one more")))
	require.Empty(t, entered)
	close(leave)
	all.Wait()
	for _, a := range answers {
		require.Equal(t, "200 review", a)
	}
	require.Equal(t, "200 again", post(t, s.URL, strings.NewReader("again")))
}

// TestLimitsReviewsOfAddress: each has limits of its own, below those for all.
func TestLimitsReviewsOfAddress(t *testing.T) {
	entered, leave := make(chan struct{}, reviewsEach), make(chan struct{})
	b := newBounds(none, func() {})
	slow := b.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-leave
		_, _ = io.Copy(w, r.Body)
	}), short)
	quick := b.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}), short)
	const one, other = "10.0.0.1:1", "10.0.0.2:1"
	answers := make([]string, reviewsEach)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = review(slow, one, strings.NewReader("review")) })
	}
	for range answers {
		<-entered
	}
	busy := review(quick, one, strings.NewReader("one more"))
	served := review(quick, other, strings.NewReader("another's"))
	close(leave)
	all.Wait()
	require.Equal(t, "429 too many admission reviews at once\n", busy)
	require.Equal(t, "200 another's", served)
	for _, a := range answers {
		require.Equal(t, "200 review", a)
	}
	require.Empty(t, b.each, "nothing is kept of an address that asks for nothing")

	// The same for its bodies.
	own, done := b.ownBound(address{host: "10.0.0.1"})
	require.NoError(t, own.bodies.Acquire(t.Context(), bodiesEach))
	require.Equal(t, "429 too many admission reviews at once\n", review(quick, one, strings.NewReader("x")))
	require.Equal(t, "200 x", review(quick, other, strings.NewReader("x")))
	own.bodies.Release(bodiesEach - maxBody)
	require.Len(t, review(quick, one, io.LimitReader(forever{}, maxBody)), len("200 ")+maxBody,
		"two of the largest are within it")
	done()
}

// TestLimitsParts: a review that is small, but large once it is decoded, waits for others like it.
func TestLimitsParts(t *testing.T) {
	b := newBounds(none, func() {})
	quick := b.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}), short)
	const one, other = "10.0.0.1:1", "10.0.0.2:1"
	require.Equal(t, "413 the review has more than 200000 parts\n", review(quick, one, strings.NewReader(
		strings.Repeat("{},", partsEach/2)+"{}")))
	most := strings.Repeat("{},", partsEach/2)
	require.Equal(t, "200 "+most, review(quick, one, strings.NewReader(most)))
	own, done := b.ownBound(address{host: "10.0.0.1"})
	defer done()
	require.True(t, own.parts.TryAcquire(partsEach-2))
	require.Equal(t, "200 {},", review(quick, one, strings.NewReader("{},")))
	require.Equal(t, "429 too many admission reviews at once\n", review(quick, one, strings.NewReader("{},{")))
	require.Equal(t, "200 {},{", review(quick, other, strings.NewReader("{},{")))
	require.True(t, b.all.parts.TryAcquire(maxParts-2))
	require.Equal(t, "429 too many admission reviews at once\n", review(quick, other, strings.NewReader("{},{")))
}

// none trusts no address.
func none(string) bool { return false }

// TestOthersTogetherLeaveTheAPIServerHalf: other callers together leave the API server half of the bounds of reviews,
// however many addresses they have.
func TestOthersTogetherLeaveTheAPIServerHalf(t *testing.T) {
	b := newBounds(func(host string) bool { return host == "10.0.0.100" }, func() {})
	quick := b.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}), short)
	take := func(n int64, of ...*semaphore.Weighted) (times int) {
		for {
			if _, err := acquire(t.Context(), time.Millisecond, n, of...); err != nil {
				return times
			}
			times++
		}
	}
	reviews, bodies := 0, 0
	for i := range 8 {
		l, done := b.boundsOf("10.0.0." + strconv.Itoa(i))
		defer done()
		reviews += take(1, l.reviews()...)
		bodies += take(1<<20, l.bodies()...)
	}
	require.Equal(t, []int{maxReviews / 2, maxBodies / 2 >> 20}, []int{reviews, bodies})
	require.Equal(t, "429 too many admission reviews at once\n", review(quick, "10.0.0.50:1", strings.NewReader("x")))
	require.Equal(t, "200 x", review(quick, "10.0.0.100:1", strings.NewReader("x")), "an API server's")
}

// TestAPIServersAddressTakesHalf: the address of an API server gets at most half, because callers behind NAT may share
// it: another API server gets the rest.
func TestAPIServersAddressTakesHalf(t *testing.T) {
	refused := 0
	b := newBounds(func(string) bool { return true }, func() { refused++ })
	quick := b.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}), short)
	l, done := b.boundsOf("10.0.0.100")
	defer done()
	for range maxReviews / 2 {
		_, err := acquire(t.Context(), short, 1, l.reviews()...)
		require.NoError(t, err)
	}
	require.Equal(t, "429 too many admission reviews at once\n", review(quick, "10.0.0.100:1", strings.NewReader("x")))
	require.Equal(t, "200 x", review(quick, "10.0.0.101:1", strings.NewReader("x")))
	require.Equal(t, 1, refused)
}

// short is how long a test waits for an event that must not happen.
const short = 10 * time.Millisecond

func review(h http.Handler, from string, body io.Reader) string {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.RemoteAddr = from
	h.ServeHTTP(w, r)
	return strconv.Itoa(w.Code) + " " + w.Body.String()
}

// TestOnlyAPIServerCallsWebhooksWithEffects: unauthenticated callers may call the others, which only answer.
func TestOnlyAPIServerCallsWebhooksWithEffects(t *testing.T) {
	handlers := map[string]http.Handler{}
	for path := range admission.Handlers(admission.Options{}) {
		handlers[path] = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	}
	mux := http.NewServeMux()
	register(mux, handlers, none, func() {}, func(r *http.Request) (subresources.User, error) {
		if name := r.Header.Get("X-Remote-User"); name != "" {
			return subresources.User{Name: name}, nil
		}
		return subresources.User{},
			&subresources.Plain{Code: http.StatusUnauthorized, Text: "request is not authenticated"}
	})
	ask := func(path, user string) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, path, nil)
		if user != "" {
			r.Header.Set("X-Remote-User", user)
		}
		mux.ServeHTTP(w, r)
		return w.Code
	}
	for path := range handlers {
		at := "/apis/subresources.kubevirt.io/v1/admission" + path
		if !slices.Contains(admission.AuthenticatedPaths(), path) {
			require.Equal(t, http.StatusOK, ask(path, ""), path)
			require.Equal(t, http.StatusNotFound, ask(at, apiServerUser), path)
			continue
		}
		require.Equal(t, http.StatusNotFound, ask(path, apiServerUser), path)
		require.Equal(t, http.StatusUnauthorized, ask(at, ""), path)
		require.Equal(t, http.StatusForbidden, ask(at, "jane"), "%s: a user who is allowed to everything", path)
		require.Equal(t, http.StatusOK, ask(at, apiServerUser), path)
	}
}

// TestCountsOnlyReceivedBytes: only received bytes count, whatever the header announces.
func TestCountsOnlyReceivedBytes(t *testing.T) {
	b := newBounds(none, func() {})
	h := b.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}), reviewWait)
	reading, send := make(chan struct{}, 1), make(chan []byte)
	r := httptest.NewRequest(http.MethodPost, "/", &stepped{reading, send})
	r.ContentLength = maxBody
	w := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(w, r)
	}()
	<-reading
	require.True(t, b.all.bodies.TryAcquire(maxBodies), "nothing has come")
	b.all.bodies.Release(maxBodies)
	send <- []byte("abc")
	<-reading
	require.False(t, b.all.bodies.TryAcquire(maxBodies-2))
	require.True(t, b.all.bodies.TryAcquire(maxBodies-3), "three bytes have")
	b.all.bodies.Release(maxBodies - 3)
	close(send)
	<-done
	require.Equal(t, "abc", w.Body.String())
}

// stepped is a body that arrives step by step.
type stepped struct {
	reading chan<- struct{}
	send    <-chan []byte
}

// Read implements io.Reader.
func (o *stepped) Read(p []byte) (int, error) {
	o.reading <- struct{}{}
	sent, more := <-o.send
	if !more {
		return 0, io.EOF
	}
	return copy(p, sent), nil
}

func post(t *testing.T, url string, body io.Reader) string {
	resp, err := http.Post(url, "application/json", body)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.Status[:4] + string(text)
}

// TestCountsBodiesAsTheyArrive: bodies, complete or not, count as they arrive, until the request is answered.
func TestCountsBodiesAsTheyArrive(t *testing.T) {
	b := newBounds(none, func() {})
	h := b.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		require.LessOrEqual(t, n, int64(maxBody))
		require.False(t, b.all.bodies.TryAcquire(maxBodies), "it is held while it is answered")
	}), reviewWait)
	for name, c := range map[string]struct {
		body io.Reader
		code int
	}{
		"short":       {strings.NewReader("x"), http.StatusOK},
		"of one size": {io.LimitReader(forever{}, 300<<10), http.StatusOK},
		"endless":     {forever{}, http.StatusOK},
		"broken":      {failed{io.ErrUnexpectedEOF}, http.StatusBadRequest},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", c.body))
		require.Equal(t, c.code, w.Code, name)
		require.True(t, b.all.bodies.TryAcquire(maxBodies), name)
		b.all.bodies.Release(maxBodies)
	}
	// The limit is reached.
	require.NoError(t, b.all.bodies.Acquire(context.Background(), maxBodies))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x")))
	require.Equal(t, http.StatusTooManyRequests, w.Code)
}

type forever struct{}

func (forever) Read(p []byte) (int, error) { return len(p), nil }
