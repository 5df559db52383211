package dhcp

import (
	"context"
	"net"

	"golang.org/x/time/rate"
)

// A guest that asks more often than this is read no faster, and what does not fit into the socket's buffer is dropped
// by the kernel: a flood of requests costs the launcher next to nothing. A client asks a handful of times when it
// boots, and then twice an hour or so.
const (
	requestsPerSecond = 5
	requestsAtOnce    = 20
)

// limited is a connection that is read at a limited rate until ctx ends.
type limited struct {
	net.PacketConn
	ctx  context.Context //nolint:containedctx // net.PacketConn has none, and the connection's life is that of ctx
	rate *rate.Limiter
}

func limit(ctx context.Context, conn net.PacketConn) net.PacketConn {
	return limited{PacketConn: conn, ctx: ctx, rate: rate.NewLimiter(requestsPerSecond, requestsAtOnce)}
}

// ReadFrom waits for its turn before it reads.
func (l limited) ReadFrom(p []byte) (n int, from net.Addr, err error) {
	if err := l.rate.Wait(l.ctx); err != nil {
		return 0, nil, err
	}
	return l.PacketConn.ReadFrom(p)
}
