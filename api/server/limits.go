package server

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtflow/virtflow/internal/inflight"
)

// limitedListener closes connections beyond a limit for all, and one for each address, at once: whoever opens many
// leaves others theirs.
type limitedListener struct {
	net.Listener
	limit     inflight.Limit
	max, each int
	refused   prometheus.Counter
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // as if it were the listener itself
		}
		release, err := l.limit.Acquire(l.max, inflight.Quota{Owner: host(conn.RemoteAddr().String()), Max: l.each})
		if err != nil {
			l.refused.Inc()
			_ = conn.Close()
			continue
		}
		return &limitedConn{Conn: conn, release: sync.OnceFunc(release)}, nil
	}
}

// limitedConn counts until it is closed, or released before.
type limitedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close() //nolint:wrapcheck // as if it were the connection itself
}

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
		release, err := h.limit.Acquire(h.max, inflight.Quota{Owner: host(r.RemoteAddr), Max: h.each})
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

// host is an address without its port.
func host(address string) string {
	if h, _, err := net.SplitHostPort(address); err == nil {
		return h
	}
	return address
}
