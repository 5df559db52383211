package gateway

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/virtflow/virtflow/internal/inflight"
)

const (
	// Unauthenticated connections are those on which no good token has been shown. So many are open from one address,
	// and from all addresses together. Beyond these limits, the oldest connection of the same address, or of the
	// address that has most, is closed: so idle connections do not keep out nodes, which authenticate within
	// milliseconds.
	unauthenticatedPerAddress, maxUnauthenticated = 64, 256
	// unauthenticatedLife is how long a connection may stay unauthenticated.
	unauthenticatedLife = 10 * time.Second
	// connectionsPerNode is larger than one: there are two node workers while one replaces the other, and a broken
	// connection may linger.
	connectionsPerNode = 4
	// socketBuffer bounds, in bytes, what the kernel buffers of a connection that is not read; the kernel uses twice
	// that.
	socketBuffer = 64 << 10
)

// Why a connection was closed, as the metric virtflow_gateway_connections_closed_total shows it.
const (
	closedUnauthenticated = "unauthenticated" // no valid token arrived in time
	closedCrowded         = "too-many"        // more connections than the limit of unauthenticated ones
	closedOfNode          = "node-full"       // its node is at the limit
)

// connections is the gateway's listener. It bounds unauthenticated connections by address, and authenticated ones by
// node. It is safe for concurrent use.
type connections struct {
	net.Listener
	life   time.Duration // of unauthenticated ones
	closed *prometheus.CounterVec

	unauthenticated inflight.Handshakes

	mu     sync.Mutex
	byNode inflight.Limit
}

func newConnections(l net.Listener, life time.Duration, closed *prometheus.CounterVec) *connections {
	return &connections{Listener: l, life: life, closed: closed,
		unauthenticated: inflight.Handshakes{Max: maxUnauthenticated, Each: unauthenticatedPerAddress}}
}

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err // servers recognize temporary errors by their type
	}
	if tcp, ok := raw.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(socketBuffer) // else it is the system's
	}
	c := &connection{Conn: raw, all: l}
	if crowded := l.add(c); crowded != nil {
		crowded.end(closedCrowded)
	}
	return c, nil
}

// add adds an unauthenticated connection, and returns the one to close for it (nil: none).
func (l *connections) add(c *connection) *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.late = time.AfterFunc(l.life, func() { c.end(closedUnauthenticated) })
	crowded, _ := l.unauthenticated.Begin(c).(*connection)
	return crowded
}

// forget removes a connection from the unauthenticated ones; the caller holds the lock.
func (l *connections) forget(c *connection) {
	l.unauthenticated.End(c)
	c.late.Stop()
}

// connection is one connection that the listener has accepted.
type connection struct {
	net.Conn
	all *connections

	// Guarded by the lock of all.
	late          *time.Timer
	authenticated bool
	closed        bool
	release       func() // of its node's limit; nil: it has none
}

// isAuthenticated reports whether a call with a valid token has arrived on it.
func (c *connection) isAuthenticated() bool {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	return c.authenticated
}

// authenticate counts the connection as that node's from now on. It returns a Refusal where the node is at its limit.
func (c *connection) authenticate(node string) error {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.authenticated || c.closed {
		return nil
	}
	release, err := c.all.byNode.Acquire(noLimit, inflight.Quota{Owner: node, Max: connectionsPerNode})
	if err != nil {
		c.all.closed.WithLabelValues(closedOfNode).Inc()
		return refuse(ReasonTooMany, "node %s has %d connections already", node, connectionsPerNode)
	}
	c.all.forget(c)
	c.authenticated, c.release = true, release
	return nil
}

// end closes the connection and counts the reason, unless the connection is authenticated. A connection that is closed
// is not counted again.
func (c *connection) end(reason string) {
	if c.isAuthenticated() {
		return
	}
	if c.close() {
		c.all.closed.WithLabelValues(reason).Inc()
	}
	_ = c.Conn.Close()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.close()
	return c.Conn.Close() // as if it were the connection itself
}

// close removes the connection from the limits, and reports whether it was open.
func (c *connection) close() bool {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.closed {
		return false
	}
	c.closed = true
	c.all.forget(c)
	if c.release != nil {
		c.release()
	}
	return true
}

// trackedCredentials pass the connection on to its calls: gRPC gives a call only what the handshake returned.
type trackedCredentials struct {
	credentials.TransportCredentials
}

type handshake struct {
	credentials.AuthInfo
	connection *connection
}

// ServerHandshake implements credentials.TransportCredentials.
func (p trackedCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := p.TransportCredentials.ServerHandshake(raw)
	if c, ok := raw.(*connection); ok && err == nil {
		info = handshake{info, c}
	}
	return secure, info, err // as if it were the credentials themselves
}

// Clone implements credentials.TransportCredentials.
func (p trackedCredentials) Clone() credentials.TransportCredentials {
	return trackedCredentials{p.TransportCredentials.Clone()}
}

// connectionOf returns the connection of a call, or nil where it came through another listener.
func connectionOf(ctx context.Context) *connection {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	h, _ := p.AuthInfo.(handshake)
	return h.connection
}
