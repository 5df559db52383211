package process

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// TestProfilesAreForLoopbackOnly: no flag makes them reachable from elsewhere.
func TestProfilesAreForLoopbackOnly(t *testing.T) {
	for _, address := range []string{"127.0.0.1:6060", "127.0.0.2:0", "[::1]:6060"} {
		require.NoError(t, loopback(address), address)
	}
	for _, address := range []string{":6060", "0.0.0.0:6060", "[::]:6060", "10.0.0.1:6060", "localhost:6060",
		"127.0.0.1", "6060"} {
		require.Error(t, loopback(address), address)
	}
	cmd := NewCommand("p", "", nil, func(context.Context, *Process) error { panic("work was begun") })
	cmd.SetArgs([]string{"--metrics-address=", "--pprof-address=:0"})
	require.ErrorContains(t, cmd.ExecuteContext(t.Context()), "--pprof-address")
}

// TestProfilesAreServed: profiles are served on a port of their own, and never on that of the metrics.
func TestProfilesAreServed(t *testing.T) {
	get := func(h http.Handler) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/pprof/goroutine?debug=1", http.NoBody))
		return w
	}
	w := get(pprofHandler())
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "goroutine profile: total")
	w = get(handler(&Process{Registry: prometheus.NewRegistry(), Health: NewHealth()}))
	require.Equal(t, http.StatusNotFound, w.Code)

	began := false
	cmd := NewCommand("p", "", nil, func(context.Context, *Process) error { began = true; return nil })
	cmd.SetArgs([]string{"--metrics-address=", "--pprof-address=127.0.0.1:0"})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.True(t, began)
}
