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

	"github.com/virtflow/virtflow/api/admission"
	"github.com/virtflow/virtflow/api/subresources"
)

// TestReviewsAtOnceAreLimited: the others wait, and are refused after a while.
func TestReviewsAtOnceAreLimited(t *testing.T) {
	entered, leave := make(chan struct{}, 2*reviewsEach), make(chan struct{})
	s := httptest.NewServer(newBounds().handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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

// TestAnAddressTakesNothingFromOthers: each has limits of its own, below those for all.
func TestAnAddressTakesNothingFromOthers(t *testing.T) {
	entered, leave := make(chan struct{}, reviewsEach), make(chan struct{})
	b := newBounds()
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

	// Nor do its bodies.
	own, done := b.of("10.0.0.1")
	require.NoError(t, own.bodies.Acquire(t.Context(), bodiesEach))
	require.Equal(t, "429 too many admission reviews at once\n", review(quick, one, strings.NewReader("x")))
	require.Equal(t, "200 x", review(quick, other, strings.NewReader("x")))
	own.bodies.Release(bodiesEach - maxBody)
	require.Len(t, review(quick, one, io.LimitReader(forever{}, maxBody)), len("200 ")+maxBody,
		"two of the largest are within it")
	done()
}

// TestPartsAreLimited: what is small, and large once it is decoded, waits for its like.
func TestPartsAreLimited(t *testing.T) {
	b := newBounds()
	quick := b.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}), short)
	const one, other = "10.0.0.1:1", "10.0.0.2:1"
	require.Equal(t, "413 the review has more than 200000 parts\n", review(quick, one, strings.NewReader(
		strings.Repeat("{},", partsEach/2)+"{}")))
	most := strings.Repeat("{},", partsEach/2)
	require.Equal(t, "200 "+most, review(quick, one, strings.NewReader(most)))
	own, done := b.of("10.0.0.1")
	defer done()
	require.True(t, own.parts.TryAcquire(partsEach-2))
	require.Equal(t, "200 {},", review(quick, one, strings.NewReader("{},")))
	require.Equal(t, "429 too many admission reviews at once\n", review(quick, one, strings.NewReader("{},{")))
	require.Equal(t, "200 {},{", review(quick, other, strings.NewReader("{},{")))
	require.True(t, b.all.parts.TryAcquire(maxParts-2))
	require.Equal(t, "429 too many admission reviews at once\n", review(quick, other, strings.NewReader("{},{")))
}

// short is a wait for what does not come.
const short = 10 * time.Millisecond

func review(h http.Handler, from string, body io.Reader) string {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.RemoteAddr = from
	h.ServeHTTP(w, r)
	return strconv.Itoa(w.Code) + " " + w.Body.String()
}

// TestOnlyTheAPIServerCallsWebhooksThatDoMoreThanAnswer: whoever reaches the port may call the others, whose answer is
// all that comes of them.
func TestOnlyTheAPIServerCallsWebhooksThatDoMoreThanAnswer(t *testing.T) {
	handlers := map[string]http.Handler{}
	for path := range admission.Handlers(admission.Options{}) {
		handlers[path] = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	}
	mux := http.NewServeMux()
	register(mux, handlers, func(r *http.Request) (subresources.User, error) {
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

// TestWhoSendsNothingHoldsNothing: what has come counts, whatever a header promises.
func TestWhoSendsNothingHoldsNothing(t *testing.T) {
	b := newBounds()
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

// stepped is a body that comes step by step.
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

// TestBodiesCountAsTheyCome, and no longer once they are answered, whole or not.
func TestBodiesCountAsTheyCome(t *testing.T) {
	b := newBounds()
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
	// Nothing is left for another.
	require.NoError(t, b.all.bodies.Acquire(context.Background(), maxBodies))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x")))
	require.Equal(t, http.StatusTooManyRequests, w.Code)
}

type forever struct{}

func (forever) Read(p []byte) (int, error) { return len(p), nil }
