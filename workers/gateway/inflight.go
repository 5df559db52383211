package gateway

import (
	"context"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"
)

const (
	// What one node may have open at once: a node worker has two polls, which last a minute each, and there are two workers while one
	// replaces the other. Temporal counts them all in its limits of a namespace.
	pollsAtOnce, othersAtOnce = 8, 64
	// connectionsPerAddress bounds what one address can open before it has shown any token. A node worker opens one.
	connectionsPerAddress = 16
)

// tallies counts by name, up to a limit. Names with nothing open are forgotten. It is safe for concurrent use.
type tallies struct {
	mu   sync.Mutex
	open map[string]int
}

func newTallies() *tallies { return &tallies{open: map[string]int{}} }

// take counts one more of that name. It is false when there are most already; else give takes it back, once however often it is called.
func (t *tallies) take(name string, most int) (give func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[name] >= most {
		return nil, false
	}
	t.open[name]++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.open[name]--; t.open[name] <= 0 {
			delete(t.open, name)
		}
	}), true
}

// enter counts a call of a node while it is open. Polls are counted apart: they must not keep answers from getting through.
func (g *Gateway) enter(node, method string) (leave func(), err error) {
	in, most := g.calls, othersAtOnce
	if strings.HasPrefix(method, "Poll") {
		in, most = g.polls, pollsAtOnce
	}
	leave, ok := in.take(node, most)
	if !ok {
		return nil, refuse(ReasonTooMany, "node %s has %d calls of this kind open already", node, most)
	}
	return leave, nil
}

// glimpse refuses a call that shows no token before anything of its message is read.
func (g *Gateway) glimpse(ctx context.Context, call *tap.Info) (context.Context, error) {
	if _, refusal := bearer(metadata.NewIncomingContext(ctx, call.Header)); refusal != nil {
		return nil, g.refused(ctx, g.counters.label(call.FullMethodName), nil, refusal)
	}
	return ctx, nil
}

// fairListener closes connections at once that are one too many of their address.
type fairListener struct {
	net.Listener
	open *tallies
	most int
}

func newFairListener(l net.Listener, most int) net.Listener {
	return &fairListener{Listener: l, open: newTallies(), most: most}
}

func (l *fairListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // the server tells errors that pass from others by their type
		}
		host, _, err := net.SplitHostPort(c.RemoteAddr().String())
		if err != nil {
			host = c.RemoteAddr().String()
		}
		give, ok := l.open.take(host, l.most)
		if ok {
			return &fairConn{Conn: c, give: give}, nil
		}
		_ = c.Close()
	}
}

type fairConn struct {
	net.Conn
	give func()
}

func (c *fairConn) Close() error {
	defer c.give()
	return c.Conn.Close() //nolint:wrapcheck // as if it were the connection itself
}
