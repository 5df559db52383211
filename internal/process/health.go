package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check returns an error that describes the problem, or nil. It must answer within about a second.
type Check func(ctx context.Context) error

// Health holds the checks of /healthz (should this process be restarted?) and /readyz (should it be given work?). It is
// safe for concurrent use.
type Health struct {
	mu    sync.Mutex
	live  map[string]Check
	ready map[string]Check
}

// NewHealth returns a Health without checks: alive, but not ready until the first check is added.
func NewHealth() *Health { return &Health{live: map[string]Check{}, ready: map[string]Check{}} }

// AddLive adds a check to /healthz; adding one of the same name replaces it.
func (h *Health) AddLive(name string, c Check) { h.add(h.live, name, c) }

// AddReady adds a check to /readyz; adding one of the same name replaces it.
func (h *Health) AddReady(name string, c Check) { h.add(h.ready, name, c) }

// Ready runs the checks of /readyz. The error has the name of each check that fails.
func (h *Health) Ready(ctx context.Context) error { return h.run(ctx, h.ready) }

func (h *Health) add(m map[string]Check, name string, c Check) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m[name] = c
}

func (h *Health) handler(checks map[string]Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := h.run(ctx, checks); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}

func (h *Health) run(ctx context.Context, checks map[string]Check) error {
	h.mu.Lock()
	todo := maps.Clone(checks)
	h.mu.Unlock()
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(todo)) {
		if err := todo[name](ctx); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

// unknown reports whether the process has not added a check for /readyz yet.
func (h *Health) unknown() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ready) == 0
}

// starting answers for a process that has not added a check for /readyz yet.
func (h *Health) starting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.unknown() {
			http.Error(w, "the process is starting", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// scrapes is how many are answered at once, scrapeTimeout how long the gathering may take, and answerTimeout how long
// the client may take to read the answer: with thousands of VMs it is large, and any pod may request it.
const (
	scrapes       = 4
	scrapeTimeout = 10 * time.Second
	answerTimeout = 20 * time.Second
)

func handler(p *Process) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.Registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: scrapes, Timeout: scrapeTimeout,
	}))
	mux.Handle("GET /healthz", p.Health.handler(p.Health.live))
	mux.Handle("GET /readyz", p.Health.starting(p.Health.handler(p.Health.ready)))
	return mux
}
