package dhcp

import (
	"context"
	"net"

	"golang.org/x/time/rate"
)

// Requests of a guest that sends more often than this are read no faster, and the kernel drops what does not fit into
// the socket's buffer: a flood of requests costs the launcher next to nothing. A client sends a handful of requests
// when it boots, and then about two an hour.
const (
	requestsPerSecond = 5
	requestsAtOnce    = 20
)

// limited is a connection that is read at a limited rate until ctx ends.
type limited struct {
	net.PacketConn
	ctx  context.Context // net.PacketConn has none, and the connection's life is that of ctx
	rate *rate.Limiter
}

// limitRate returns a connection that reads a limited number of requests in a second.
func limitRate(ctx context.Context, conn net.PacketConn) net.PacketConn {
	return limited{PacketConn: conn, ctx: ctx, rate: rate.NewLimiter(requestsPerSecond, requestsAtOnce)}
}

// ReadFrom waits for the rate limiter before it reads.
func (l limited) ReadFrom(p []byte) (n int, from net.Addr, err error) {
	if err := l.rate.Wait(l.ctx); err != nil {
		return 0, nil, err
	}
	return l.PacketConn.ReadFrom(p)
}
