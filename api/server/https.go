package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/internal/inflight"
)

const (
	// maxStreams is how many requests one connection of HTTP/2 may carry at once, and receiveBuffer how many bytes of
	// their bodies, and of each, a client may send before they are read: the smallest possible.
	maxStreams    = 250
	receiveBuffer = 64 << 10
)

var errTooMany = errors.New("too many connections")

// Limits of the HTTPS server, which any pod can reach. The zero value of each is its default.
type Limits struct {
	// Header is the time that a client has for the handshake and the header of a request.
	Header time.Duration
	// Request is the time from a request's first byte to the last one of its answer. It does not bound streams.
	Request time.Duration
	// Idle is how long a connection stays open between two requests.
	Idle time.Duration
	// HeaderBytes is the largest size of a header.
	HeaderBytes int
	// Connections of all clients together, and half as many of one API server's address; ConnectionsOthers of all other
	// addresses together, and ConnectionsEach of one of them. Those of the API server's front proxy do not count.
	Connections, ConnectionsOthers, ConnectionsEach int
	// Requests in flight, as for connections.
	Requests, RequestsOthers, RequestsEach int
	// Handshakes is how many connections beyond these limits may be in their handshake. A new one displaces an old one,
	// so those of the front proxy always succeed.
	Handshakes int
}

func (l *Limits) fill() {
	l.Header = cmp.Or(l.Header, 5*time.Second)
	l.Request = cmp.Or(l.Request, 75*time.Second) // a call of the aggregated API takes 60 s at most
	l.Idle = cmp.Or(l.Idle, 100*time.Second)      // the API server itself closes idle connections after 90 s
	// The API server's front proxy sends the user's groups and extra fields in headers.
	l.HeaderBytes = cmp.Or(l.HeaderBytes, 64<<10)
	// Each of the API server's calls of webhooks needs a connection (it does not use HTTP/2 there), and a refused one
	// fails a user's request. By default an API server has up to 600 requests in flight (--max-requests-inflight and
	// --max-mutating-requests-inflight), and keeps up to 25 idle connections for each webhook.
	l.Connections, l.Requests = cmp.Or(l.Connections, 4096), cmp.Or(l.Requests, 2048)
	// The limit of others suffices for API servers whose addresses are not known yet.
	l.ConnectionsOthers = cmp.Or(l.ConnectionsOthers, l.Connections/4)
	l.RequestsOthers = cmp.Or(l.RequestsOthers, l.Requests/4)
	l.ConnectionsEach = cmp.Or(l.ConnectionsEach, l.ConnectionsOthers/4)
	l.RequestsEach = cmp.Or(l.RequestsEach, l.RequestsOthers/4)
	l.Handshakes = cmp.Or(l.Handshakes, 64)
}

// Server serves HTTPS within Limits. It is a runnable of a manager.
type Server struct {
	address     string
	limits      Limits
	handler     http.Handler
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// frontProxy reports whether a client has presented the certificate of the API server's front proxy.
	frontProxy func(*tls.ConnectionState) bool
	trusted    *trusted
	log        zerolog.Logger
	refused    *prometheus.CounterVec
	listening  atomic.Bool
}

// newServer returns a server for a handler. It gets the certificate at every handshake, so that a new one is used at
// once.
func newServer(host string, port int, limits Limits, handler http.Handler,
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error),
	frontProxy func(*tls.ConnectionState) bool, log zerolog.Logger,
) *Server {
	limits.fill()
	return &Server{
		address: net.JoinHostPort(host, strconv.Itoa(port)), limits: limits, handler: handler, certificate: certificate,
		frontProxy: frontProxy, trusted: newTrusted(),
		log: log, refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtflow_https_refused_total",
			Help: "Closed connections, and requests and reviews that got 429, because a limit was reached, by kind.",
		}, []string{"kind"}),
	}
}

// NeedLeaderElection reports whether only the leader serves: every replica does.
func (s *Server) NeedLeaderElection() bool { return false }

// Ready is a health check.
func (s *Server) Ready(context.Context) error {
	if !s.listening.Load() {
		return errors.New("the HTTPS server does not listen yet")
	}
	return nil
}

// Start serves until ctx ends, and then briefly for requests in progress.
func (s *Server) Start(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listening for HTTPS: %w", err)
	}
	return s.serve(ctx, l)
}

func (s *Server) serve(ctx context.Context, l net.Listener) error {
	limited := &inflight.Listener{Listener: l, Max: s.limits.Connections,
		Quotas: s.trusted.quotas(s.limits.Connections, s.limits.ConnectionsOthers, s.limits.ConnectionsEach),
		Spare: &inflight.Handshakes{
			Max: s.limits.Handshakes, Each: max(1, s.limits.Handshakes/8),
			Expected: func(a netip.Addr) bool { return s.trusted.has(a.String()) },
		},
		Refused: s.refused.WithLabelValues("connection").Inc}
	https := &http.Server{
		Handler: &limitedHandler{
			Handler: s.handler, frontProxy: s.frontProxy, trusted: s.trusted, limit: s.limits.Requests,
			quotas:  s.trusted.quotas(s.limits.Requests, s.limits.RequestsOthers, s.limits.RequestsEach),
			refused: s.refused.WithLabelValues("request"),
		},
		TLSConfig:         s.tlsConfig(),
		ReadHeaderTimeout: s.limits.Header,
		ReadTimeout:       s.limits.Request,
		WriteTimeout:      s.limits.Request,
		IdleTimeout:       s.limits.Idle,
		MaxHeaderBytes:    s.limits.HeaderBytes,
		// Bytes that a connection sends before they are read count against no other limit.
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: min(s.limits.RequestsEach, maxStreams),
			MaxReceiveBufferPerConnection: receiveBuffer, MaxReceiveBufferPerStream: receiveBuffer},
		// Unauthenticated callers can cause these lines, for example by handshakes that fail.
		ErrorLog: stdlog.New(s.log.Sample(&zerolog.BurstSampler{Burst: 10, Period: 10 * time.Second}), "", 0),
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		s.listening.Store(false)
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if https.Shutdown(limit) != nil {
			_ = https.Close()
		}
	})
	s.listening.Store(true)
	err := https.ServeTLS(limited, "", "")
	if stop() { // it has failed
		_ = https.Close()
		return fmt.Errorf("serving HTTPS: %w", err)
	}
	<-ended
	return nil
}

func (s *Server) tlsConfig() *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS13,
		// Streams need HTTP/1.1. Package subresources checks the client's certificate against the current CA.
		NextProtos:     []string{"h2", "http/1.1"},
		ClientAuth:     tls.RequestClientCert,
		GetCertificate: s.certificate,
	}
	// The front proxy's connections carry every user's streams, so they no longer count against the limits.
	of := c.Clone()
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		conn, ok := hello.Conn.(*inflight.Conn)
		if !ok {
			return nil, nil
		}
		each := of.Clone()
		each.VerifyConnection = func(state tls.ConnectionState) error {
			switch {
			case s.frontProxy(&state):
				s.trusted.add(inflight.Host(conn.RemoteAddr().String()))
				conn.Release()
			case conn.Spare:
				s.refused.WithLabelValues("connection").Inc()
				return errTooMany
			}
			return nil
		}
		return each, nil
	}
	return c
}
