package inflight

import (
	"net"
	"sync"
)

// Listener closes connections beyond its limits at once: a client that opens many leaves others theirs. It is safe for
// concurrent use, and must not be copied.
type Listener struct {
	net.Listener
	// Max is the most connections, and Quotas returns the quotas for those of one address.
	Max    int
	Quotas func(host string) []Quota
	// Spare, unless nil, holds connections beyond these limits until they are released or closed: for clients that
	// authenticate in their handshake, which silent connections do not prevent. They have Conn.Spare set.
	Spare *Handshakes
	// Refused, unless nil, is called for each connection that is closed.
	Refused func()

	open Limit
}

// Accept implements net.Listener. Its connections are *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err // servers distinguish temporary errors by their type
		}
		release, err := l.open.Acquire(l.Max, l.Quotas(Host(conn.RemoteAddr().String()))...)
		switch {
		case err == nil:
			return &Conn{Conn: conn, release: sync.OnceFunc(release)}, nil
		case l.Spare == nil:
			l.refuse(conn)
		default:
			if surplus := l.Spare.Begin(conn); surplus != nil {
				l.refuse(surplus)
			}
			return &Conn{Conn: conn, Spare: true, release: func() { l.Spare.End(conn) }}, nil
		}
	}
}

func (l *Listener) refuse(conn net.Conn) {
	if l.Refused != nil {
		l.Refused()
	}
	_ = conn.Close()
}

// Conn is a connection that counts until it is closed, or released before.
type Conn struct {
	net.Conn
	// Spare reports whether it is beyond the limits of its Listener.
	Spare   bool
	release func()
}

// Release stops counting the connection while it stays open. It may be called more than once.
func (c *Conn) Release() { c.release() }

// Close implements net.Conn.
func (c *Conn) Close() error {
	defer c.release()
	return c.Conn.Close() // the connection's own errors
}

// Host returns an address without its port, or the whole if it has none.
func Host(address string) string {
	if h, _, err := net.SplitHostPort(address); err == nil {
		return h
	}
	return address
}
