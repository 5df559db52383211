package gateway

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// transportErrors counts the calls that gRPC ends before their request is received whole: messages that are too large,
// or are none.
type transportErrors struct{ gateway *Gateway }

type callKey struct{}

type call struct {
	method   string
	received atomic.Bool
}

// received marks a call as one whose request has been received whole.
func received(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.received.Store(true)
	}
}

func (u transportErrors) TagRPC(ctx context.Context, i *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, callKey{}, &call{method: u.gateway.counters.label(i.FullMethodName)})
}

func (u transportErrors) HandleRPC(ctx context.Context, s stats.RPCStats) {
	end, ok := s.(*stats.End)
	c, known := ctx.Value(callKey{}).(*call)
	if !ok || !known || end.Error == nil || c.received.Load() {
		return
	}
	reason := ReasonMalformed
	switch status.Code(end.Error) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
		return // the caller went away
	case codes.ResourceExhausted:
		reason = ReasonTooLarge
	default:
	}
	u.gateway.counters.refused.WithLabelValues(c.method, string(reason)).Inc()
}

func (transportErrors) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (transportErrors) HandleConn(context.Context, stats.ConnStats)                       {}
