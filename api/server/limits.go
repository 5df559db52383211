package server

import (
	"crypto/tls"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtflow/virtflow/internal/inflight"
)

// limitedHandler answers 429 to requests beyond the limits. Those of the front proxy do not count: the API server
// limits the requests that it forwards.
type limitedHandler struct {
	http.Handler
	inFlight   inflight.Limit
	limit      int
	quotas     func(host string) []inflight.Quota
	frontProxy func(*tls.ConnectionState) bool
	trusted    *trusted
	refused    prometheus.Counter
}

// ServeHTTP implements http.Handler.
func (h *limitedHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := inflight.Host(r.RemoteAddr)
	if r.TLS != nil && h.frontProxy(r.TLS) {
		h.trusted.add(host) // a connection may last
	} else {
		release, err := h.inFlight.Acquire(h.limit, h.quotas(host)...)
		if err != nil {
			h.refused.Inc()
			tooMany(w, "too many requests at once")
			return
		}
		defer release()
	}
	h.Handler.ServeHTTP(w, r)
}

// tooMany answers 429, and ends the connection: the rest of the body is not read.
func tooMany(w http.ResponseWriter, text string) {
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Connection", "close")
	http.Error(w, text, http.StatusTooManyRequests)
}
