package server

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
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
	})))
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
		require.False(t, b.bodies.TryAcquire(maxBodies), "it is held while it is answered")
	}))
	for name, c := range map[string]struct {
		body io.Reader
		code int
	}{
		"short":       {strings.NewReader("x"), http.StatusOK},
		"of one size": {io.LimitReader(forever{}, 10*chunk), http.StatusOK},
		"endless":     {forever{}, http.StatusOK},
		"broken":      {failed{io.ErrUnexpectedEOF}, http.StatusBadRequest},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", c.body))
		require.Equal(t, c.code, w.Code, name)
		require.True(t, b.bodies.TryAcquire(maxBodies), name)
		b.bodies.Release(maxBodies)
	}
	// Nothing is left for another: it is told so.
	require.NoError(t, b.bodies.Acquire(context.Background(), maxBodies))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x")))
	require.Equal(t, http.StatusTooManyRequests, w.Code)
}

type forever struct{}

func (forever) Read(p []byte) (int, error) { return len(p), nil }
