package process

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReady: not before it is known what for, and not while any of it is missing.
func TestReady(t *testing.T) {
	h := NewHealth()
	code := func() int {
		w := httptest.NewRecorder()
		h.starting(h.handler(h.ready)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return w.Code
	}
	require.Equal(t, http.StatusServiceUnavailable, code(), "a process that has only begun is given work")
	missing := errors.New("not there yet")
	h.AddReady("it", func(context.Context) error { return missing })
	require.Equal(t, http.StatusServiceUnavailable, code())
	missing = nil
	require.Equal(t, http.StatusOK, code())
}
