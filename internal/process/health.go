package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check says what is wrong, or nil. It must answer within a second or so.
type Check func(ctx context.Context) error

// Health holds the checks of /healthz (should this process be restarted?) and /readyz (should it be given work?). It is safe for
// concurrent use.
type Health struct {
	mu    sync.Mutex
	live  map[string]Check
	ready map[string]Check
}

// NewHealth has no checks: alive, but not ready before it is known what for.
func NewHealth() *Health { return &Health{live: map[string]Check{}, ready: map[string]Check{}} }

// AddLive adds a check to /healthz; adding one of the same name replaces it.
func (h *Health) AddLive(name string, c Check) { h.add(h.live, name, c) }

// AddReady adds a check to /readyz; adding one of the same name replaces it.
func (h *Health) AddReady(name string, c Check) { h.add(h.ready, name, c) }

func (h *Health) add(m map[string]Check, name string, c Check) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m[name] = c
}

func (h *Health) handler(checks map[string]Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		h.mu.Lock()
		todo := make(map[string]Check, len(checks))
		for n, c := range checks {
			todo[n] = c
		}
		h.mu.Unlock()
		var failed []string
		for name, c := range todo {
			if err := c(ctx); err != nil {
				failed = append(failed, fmt.Sprintf("%s: %v", name, err))
			}
		}
		if len(failed) > 0 {
			sort.Strings(failed)
			http.Error(w, strings.Join(failed, "\n"), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}

// starting answers for a process that has not said yet what it needs in order to be ready.
func (h *Health) starting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		unknown := len(h.ready) == 0
		h.mu.Unlock()
		if unknown {
			http.Error(w, "it is starting", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func serve(address string, p *Process) (stop func(), err error) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.Registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /healthz", p.Health.handler(p.Health.live))
	mux.Handle("GET /readyz", p.Health.starting(p.Health.handler(p.Health.ready)))
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics-address: %w", err)
	}
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	go func() {
		if err := s.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
			p.Log.Error().Err(err).Msg("metrics server ended")
		}
	}()
	return func() { _ = s.Close() }, nil
}
