package gateway

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// unread counts the calls that gRPC ends before anyone here sees them: messages that are too large, or are none.
type unread struct{ gateway *Gateway }

type callKey struct{}

type call struct {
	method string
	seen   atomic.Bool
}

// read marks a call as one that has been read whole.
func read(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.seen.Store(true)
	}
}

func (u unread) TagRPC(ctx context.Context, i *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, callKey{}, &call{method: u.gateway.counters.label(i.FullMethodName)})
}

func (u unread) HandleRPC(ctx context.Context, s stats.RPCStats) {
	end, ok := s.(*stats.End)
	c, known := ctx.Value(callKey{}).(*call)
	if !ok || !known || end.Error == nil || c.seen.Load() {
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

func (unread) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (unread) HandleConn(context.Context, stats.ConnStats)                       {}
