package server

import (
	"crypto/tls"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtflow/virtflow/internal/inflight"
)

// limitedHandler answers 429 to requests beyond a limit for all, and one for each address. Those of the front proxy do
// not count: the API server limits what it sends on.
type limitedHandler struct {
	http.Handler
	limit      inflight.Limit
	max, each  int
	frontProxy func(*tls.ConnectionState) bool
	refused    prometheus.Counter
}

// ServeHTTP implements http.Handler.
func (h *limitedHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.TLS == nil || !h.frontProxy(r.TLS) {
		release, err := h.limit.Acquire(h.max, inflight.Quota{Owner: inflight.Host(r.RemoteAddr), Max: h.each})
		if err != nil {
			h.refused.Inc()
			tooMany(w, "too many requests at once")
			return
		}
		defer release()
	}
	h.Handler.ServeHTTP(w, r)
}

// tooMany answers 429, and ends the connection: what is left of the body is not read.
func tooMany(w http.ResponseWriter, text string) {
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Connection", "close")
	http.Error(w, text, http.StatusTooManyRequests)
}
