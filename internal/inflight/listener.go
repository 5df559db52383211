package inflight

import (
	"net"
	"sync"
)

// Listener closes connections beyond a limit for all, and one for each address, at once: whoever opens many leaves
// others theirs. It is safe for concurrent use, and is not copied.
type Listener struct {
	net.Listener
	// Max is how many connections there may be, and Each how many of one address.
	Max, Each int
	// Refused, unless nil, is called for each connection that is closed.
	Refused func()

	open Limit
}

// Accept implements net.Listener. Its connections are *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // servers tell errors that pass from others by their type
		}
		release, err := l.open.Acquire(l.Max, Quota{Owner: Host(conn.RemoteAddr().String()), Max: l.Each})
		if err == nil {
			return &Conn{Conn: conn, release: sync.OnceFunc(release)}, nil
		}
		if l.Refused != nil {
			l.Refused()
		}
		_ = conn.Close()
	}
}

// Conn counts until it is closed, or released before.
type Conn struct {
	net.Conn
	release func()
}

// Release takes the connection off the count while it stays open. It may be called more than once.
func (c *Conn) Release() { c.release() }

// Close implements net.Conn.
func (c *Conn) Close() error {
	defer c.release()
	return c.Conn.Close() //nolint:wrapcheck // as if it were the connection itself
}

// Host is an address without its port, and the address itself where it has none.
func Host(address string) string {
	if h, _, err := net.SplitHostPort(address); err == nil {
		return h
	}
	return address
}
