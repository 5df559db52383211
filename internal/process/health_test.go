package process

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReady: not before the first check is added, and not while any check fails.
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
