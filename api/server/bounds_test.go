package server

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoMoreReviewsAtOnceThanThereArePlaces: the others wait, and are told when none becomes free.
func TestNoMoreReviewsAtOnceThanThereArePlaces(t *testing.T) {
	entered, leave := make(chan struct{}, 2*maxReviews), make(chan struct{})
	s := httptest.NewServer(newBounds().bound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-leave
		_, _ = io.Copy(w, r.Body)
	}), apiServer))
	defer s.Close()
	var all sync.WaitGroup
	answers := make([]string, maxReviews)
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

// apiServer and stranger are who sends all requests.
func apiServer(*http.Request) bool { return true }
func stranger(*http.Request) bool  { return false }

// TestStrangersTakeNothingFromTheAPIServer: they share places of their own, of which there are few.
func TestStrangersTakeNothingFromTheAPIServer(t *testing.T) {
	entered, leave := make(chan struct{}, maxReviews), make(chan struct{})
	b := newBounds()
	slow := b.bound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-leave
		_, _ = io.Copy(w, r.Body)
	}), stranger)
	quick := b.bound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }), apiServer)
	ask := func(h http.Handler, body io.Reader) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", body))
		return strconv.Itoa(w.Code) + " " + w.Body.String()
	}
	answers := make([]string, strangersReviews)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = ask(slow, strings.NewReader("review")) })
	}
	for range answers {
		<-entered
	}
	free := b.proven.reviews.TryAcquire(maxReviews)
	if !free {
		close(leave)
	}
	require.True(t, free, "every place of the API server's is free")
	b.proven.reviews.Release(maxReviews)
	require.Equal(t, "429 too many admission reviews at once\n", ask(slow, strings.NewReader("one more")))
	require.Equal(t, "200 the API server's", ask(quick, strings.NewReader("the API server's")))
	close(leave)
	all.Wait()
	for _, a := range answers {
		require.Equal(t, "200 review", a)
	}

	// Nor do their bodies, and a whole one has room.
	require.NoError(t, b.strangers.bodies.Acquire(context.Background(), strangersBodies-maxBody))
	require.Len(t, ask(slow, io.LimitReader(forever{}, maxBody)), len("200 ")+maxBody)
	require.NoError(t, b.strangers.bodies.Acquire(context.Background(), maxBody))
	require.Equal(t, "429 too many admission reviews at once\n", ask(slow, strings.NewReader("x")))
	require.Equal(t, "200 x", ask(quick, strings.NewReader("x")))
}

// TestWhoSendsNothingHoldsNothing: room is taken for what has come, whatever a header promises.
func TestWhoSendsNothingHoldsNothing(t *testing.T) {
	b := newBounds()
	h := b.bound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }), apiServer)
	reading, send := make(chan struct{}, 1), make(chan []byte)
	r := httptest.NewRequest(http.MethodPost, "/", &told{reading, send})
	r.ContentLength = maxBody
	w := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(w, r)
	}()
	<-reading
	require.True(t, b.proven.bodies.TryAcquire(maxBodies), "nothing has come")
	b.proven.bodies.Release(maxBodies)
	send <- []byte("abc")
	<-reading
	require.False(t, b.proven.bodies.TryAcquire(maxBodies-2))
	require.True(t, b.proven.bodies.TryAcquire(maxBodies-3), "three bytes have")
	b.proven.bodies.Release(maxBodies - 3)
	close(send)
	<-done
	require.Equal(t, "abc", w.Body.String())
}

// told is a body that comes when it is told to.
type told struct {
	reading chan<- struct{}
	send    <-chan []byte
}

// Read implements io.Reader.
func (o *told) Read(p []byte) (int, error) {
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

// TestRoomForBodiesIsTakenAsTheyCome and given back, whole bodies or not.
func TestRoomForBodiesIsTakenAsTheyCome(t *testing.T) {
	b := newBounds()
	h := b.bound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		require.LessOrEqual(t, n, int64(maxBody))
		require.False(t, b.proven.bodies.TryAcquire(maxBodies), "it is held while it is answered")
	}), apiServer)
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
		require.True(t, b.proven.bodies.TryAcquire(maxBodies), name)
		b.proven.bodies.Release(maxBodies)
	}
	// Nothing is left for another: it is told so.
	require.NoError(t, b.proven.bodies.Acquire(context.Background(), maxBodies))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x")))
	require.Equal(t, http.StatusTooManyRequests, w.Code)
}

type forever struct{}

func (forever) Read(p []byte) (int, error) { return len(p), nil }
