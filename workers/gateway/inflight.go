package gateway

import (
	"context"
	"math"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	"github.com/virtflow/virtflow/internal/inflight"
)

const (
	// What one node may have open at once: a node worker has two polls, which last a minute each, and there are two
	// workers while one replaces the other. Temporal counts them all in its limits of a namespace.
	pollsAtOnce, othersAtOnce = 8, 64
	// connectionsPerAddress bounds what one address can open before it has shown any token. A node worker opens one.
	connectionsPerAddress = 16
	// noLimit: what all nodes or addresses have open together is bounded by how many connections there may be.
	noLimit = math.MaxInt
)

// acquire counts a call of a node while it is open, within the node's quota. Polls are counted apart: they must not
// keep answers from getting through.
func (g *Gateway) acquire(node, method string) (release func(), err error) {
	in, most := &g.calls, othersAtOnce
	if strings.HasPrefix(method, "Poll") {
		in, most = &g.polls, pollsAtOnce
	}
	release, err = in.Acquire(noLimit, inflight.Quota{Owner: node, Max: most})
	if err != nil {
		return nil, refuse(ReasonTooMany, "node %s has %d calls of this kind open already", node, most)
	}
	return release, nil
}

// requireToken refuses a call that shows no token before anything of its message is read.
func (g *Gateway) requireToken(ctx context.Context, call *tap.Info) (context.Context, error) {
	if _, refusal := bearer(metadata.NewIncomingContext(ctx, call.Header)); refusal != nil {
		return nil, g.refused(ctx, g.counters.label(call.FullMethodName), nil, refusal)
	}
	return ctx, nil
}
