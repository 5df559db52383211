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
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/internal/inflight"
)

const (
	// maxStreams is how many requests one connection of HTTP/2 may carry at once, and receiveBuffer how many bytes of
	// their bodies, and of each, may have come that nobody has read: the least that there is.
	maxStreams    = 250
	receiveBuffer = 64 << 10
)

// Limits of the HTTPS server, which any pod can reach. The zero value of each is its default.
type Limits struct {
	// Header is how long a client may take to shake hands and to send the header of a request.
	Header time.Duration
	// Request is how long a request may take from its first byte to its answer's last one. Streams are not bounded by
	// it.
	Request time.Duration
	// Idle is how long a connection stays open between two requests.
	Idle time.Duration
	// HeaderBytes is how large a header may be.
	HeaderBytes int
	// Connections of all clients together, and ConnectionsEach of one address. Those of the API server's front proxy do
	// not count.
	Connections, ConnectionsEach int
	// Requests in flight of all clients together, and RequestsEach of one address, as for connections.
	Requests, RequestsEach int
}

func (l *Limits) fill() {
	l.Header = cmp.Or(l.Header, 5*time.Second)
	l.Request = cmp.Or(l.Request, 75*time.Second) // a call of the aggregated API takes 60 s at most
	l.Idle = cmp.Or(l.Idle, 100*time.Second)      // the API server itself closes what is idle for 90 s
	// The API server's front proxy sends in headers what is known of a user: groups and extra.
	l.HeaderBytes = cmp.Or(l.HeaderBytes, 64<<10)
	// Each of the API server's calls of webhooks takes a connection (it does not use HTTP/2 there), and one that is
	// refused fails a user's request. By default an API server has 600 requests in hand (--max-requests-inflight and
	// --max-mutating-requests-inflight), and keeps up to 25 idle connections for each webhook.
	l.Connections, l.ConnectionsEach = cmp.Or(l.Connections, 4096), cmp.Or(l.ConnectionsEach, 1024)
	l.Requests, l.RequestsEach = cmp.Or(l.Requests, 2048), cmp.Or(l.RequestsEach, 1024)
}

// Server serves HTTPS within Limits. It is a runnable of a manager.
type Server struct {
	address     string
	limits      Limits
	handler     http.Handler
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// frontProxy says whether a client has shown the certificate of the API server's front proxy.
	frontProxy func(*tls.ConnectionState) bool
	log        zerolog.Logger
	refused    *prometheus.CounterVec
	listening  atomic.Bool
}

// newServer makes a server for a handler. The certificate is asked for at every handshake, so that a new one is used at
// once.
func newServer(host string, port int, limits Limits, handler http.Handler,
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error),
	frontProxy func(*tls.ConnectionState) bool, log zerolog.Logger,
) *Server {
	limits.fill()
	return &Server{
		address: net.JoinHostPort(host, strconv.Itoa(port)), limits: limits, handler: handler, certificate: certificate,
		frontProxy: frontProxy,
		log:        log, refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtflow_https_refused_total",
			Help: "Connections that were closed, and requests that were answered 429, as there were too many, by kind.",
		}, []string{"kind"}),
	}
}

// NeedLeaderElection says that every replica serves.
func (s *Server) NeedLeaderElection() bool { return false }

// Ready is a health check.
func (s *Server) Ready(context.Context) error {
	if !s.listening.Load() {
		return errors.New("the HTTPS server does not listen yet")
	}
	return nil
}

// Start serves until ctx ends, and then for what is being answered a moment longer.
func (s *Server) Start(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listening for HTTPS: %w", err)
	}
	return s.serve(ctx, l)
}

func (s *Server) serve(ctx context.Context, l net.Listener) error {
	limited := &inflight.Listener{Listener: l, Max: s.limits.Connections, Each: s.limits.ConnectionsEach,
		Refused: s.refused.WithLabelValues("connection").Inc}
	https := &http.Server{
		Handler: &limitedHandler{
			Handler: s.handler, max: s.limits.Requests, each: s.limits.RequestsEach, frontProxy: s.frontProxy,
			refused: s.refused.WithLabelValues("request"),
		},
		TLSConfig:         s.tlsConfig(),
		ReadHeaderTimeout: s.limits.Header,
		ReadTimeout:       s.limits.Request,
		WriteTimeout:      s.limits.Request,
		IdleTimeout:       s.limits.Idle,
		MaxHeaderBytes:    s.limits.HeaderBytes,
		// What a connection may send before anybody reads it is among no other limit.
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: min(s.limits.RequestsEach, maxStreams),
			MaxReceiveBufferPerConnection: receiveBuffer, MaxReceiveBufferPerStream: receiveBuffer},
		// Anybody can cause lines here, such as those of handshakes that fail.
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
		// Streams need HTTP/1.1. Whose certificate a client has shown, package subresources judges by the CA of the
		// moment.
		NextProtos:     []string{"h2", "http/1.1"},
		ClientAuth:     tls.RequestClientCert,
		GetCertificate: s.certificate,
	}
	// The front proxy's connections carry every user's streams: they are no longer among those that are limited.
	of := c.Clone()
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		conn, ok := hello.Conn.(*inflight.Conn)
		if !ok {
			return nil, nil
		}
		each := of.Clone()
		each.VerifyConnection = func(state tls.ConnectionState) error {
			if s.frontProxy(&state) {
				conn.Release()
			}
			return nil
		}
		return each, nil
	}
	return c
}
