package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // a node worker may be told to compress what it sends
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/internal/inflight"
)

const (
	// maxRequest is the largest request that is passed on. The largest honest one is the report of a node with all its
	// CPU models and features, some 130 KB at most. maxMessage is where gRPC itself stops reading.
	maxRequest, maxMessage = 256 << 10, 512 << 10
	maxHeaders             = 32 << 10
	// A connection is one node worker's: two polls, what it has in hand, and signals. What is more waits in the worker.
	// Each may hold one request before its token has been reviewed.
	maxStreams = 32
	// What one node may ask: it tells of each of its VMs at once after a restart, and seldom more than once a second
	// later.
	callsPerSecond, callsAtOnce = 50, 1000
	nodesMost                   = 10000
	// pollTime is longer than Temporal holds a poll; callTime is for everything else.
	pollTime, callTime = 3 * time.Minute, 30 * time.Second
	// maxHeader bounds the few headers that are passed on.
	maxHeader = 128
)

// Options are what a Gateway needs.
type Options struct {
	Log zerolog.Logger
	// Namespace is Temporal's.
	Namespace string
	// Temporal is where calls are passed on to.
	Temporal workflowservice.WorkflowServiceClient
	Callers  *Callers
	Pods     *Pods
	// SealKey is the key for task tokens, nil while there is none yet, and OpenKeys are those with which one may have
	// been sealed. All replicas must know each before one of them seals with it, and still after a restart.
	SealKey  func() []byte
	OpenKeys func() [][]byte
	// Registry gets the metrics; may be nil.
	Registry prometheus.Registerer
}

// Gateway decides about calls. It is safe for concurrent use.
type Gateway struct {
	Options
	rules    map[string]rule
	counters *counters
	limits   rateLimits
	polls    inflight.Limit // open now, by node
	calls    inflight.Limit // the same of everything else
	said     zerolog.Logger
	now      func() time.Time
}

// New makes a Gateway.
func New(o Options) *Gateway {
	return &Gateway{
		Options: o, rules: rules(), counters: newCounters(o.Registry),
		limits: newRateLimits(nodesMost, callsPerSecond, callsAtOnce), now: time.Now,
		// A node that is refused may be so a thousand times a second; the metric counts them all.
		said: o.Log.Sample(&zerolog.BurstSampler{Burst: 20, Period: 10 * time.Second}),
	}
}

// Server makes the gRPC server that nodes talk to.
func (g *Gateway) Server(secure credentials.TransportCredentials) (*grpc.Server, error) {
	service, err := proxy.NewWorkflowServiceProxyServer(
		proxy.WorkflowServiceProxyOptions{Client: g.Temporal, DisableHeaderForwarding: true})
	if err != nil {
		return nil, fmt.Errorf("making the proxy: %w", err)
	}
	s := grpc.NewServer(
		grpc.Creds(secure),
		grpc.InTapHandle(g.requireToken),
		grpc.UnaryInterceptor(g.intercept),
		grpc.UnknownServiceHandler(g.unknown),
		grpc.StatsHandler(transportErrors{g}),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(10*time.Second),
		// The SDK's clients ping every 30 s, also when they have nothing to say.
		grpc.KeepaliveEnforcementPolicy(
			keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 5 * time.Minute, Time: time.Minute,
			Timeout: 20 * time.Second}),
	)
	workflowservice.RegisterWorkflowServiceServer(s, service)
	return s, nil
}

// intercept is what every call of Temporal's service meets.
func (g *Gateway) intercept(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	received(ctx)
	method := g.counters.label(info.FullMethod)
	caller, request, err := g.admit(ctx, method, request)
	if err != nil {
		return nil, g.refused(ctx, method, caller, err)
	}
	release, err := g.acquire(caller.Node, method)
	if err != nil {
		return nil, g.refused(ctx, method, caller, err)
	}
	defer release()
	limit := callTime
	if strings.HasPrefix(method, "Poll") {
		limit = pollTime
	}
	out, cancel := context.WithTimeout(outgoing(ctx, request), limit)
	defer cancel()
	answer, err := next(out, request)
	g.counters.passed.WithLabelValues(method, status.Code(err).String()).Inc()
	if err != nil {
		return nil, err
	}
	return answer, g.sealed(caller.Node, answer)
}

// admit says which node calls and what is to be passed on.
func (g *Gateway) admit(ctx context.Context, method string, request any) (*Caller, any, error) {
	caller, err := g.Callers.Of(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !g.limits.allow(caller.Node) {
		return caller, nil, refuse(ReasonTooMany, "node %s asks too often", caller.Node)
	}
	apply, ok := g.rules[method]
	if !ok {
		return caller, nil, refuse(ReasonMethod, "a node may not call %s", method)
	}
	if m, ok := request.(proto.Message); !ok || proto.Size(m) > maxRequest {
		return caller, nil, refuse(ReasonTooLarge, "the request is larger than %d bytes", maxRequest)
	}
	if err := g.ownNamespace(request); err != nil {
		return caller, nil, err
	}
	changed, err := apply(g, caller.Node, request)
	return caller, changed, err
}

// refused counts what is not passed on, and says so.
func (g *Gateway) refused(_ context.Context, method string, caller *Caller, err error) error {
	var r *Refusal
	if !errors.As(err, &r) {
		return err // nothing was decided: it could not be found out
	}
	g.counters.refused.WithLabelValues(method, string(r.Reason)).Inc()
	line := g.said.Warn().Str("method", method).Str("reason", string(r.Reason)).Str("why", r.Message)
	if caller != nil {
		line = line.Str("node", caller.Node).Str("pod", caller.Pod)
	}
	line.Msg("a call was refused")
	return r.GRPCStatus().Err()
}

// unknown refuses every method that Temporal's workflow service does not have, such as those of its operator service.
func (g *Gateway) unknown(_ any, stream grpc.ServerStream) error {
	received(stream.Context())
	caller, err := g.Callers.Of(stream.Context())
	if err == nil {
		err = refuse(ReasonMethod, "a node may not call that")
	}
	return g.refused(stream.Context(), "unknown", caller, err)
}

// outgoing has the headers that Temporal gets: what it needs to know of the SDK, and what routes the request. The
// node's token is not among them.
func outgoing(ctx context.Context, request any) context.Context {
	in, _ := metadata.FromIncomingContext(ctx)
	out := metadata.MD{}
	for _, name := range []string{"client-name", "client-version", "supported-server-versions"} {
		if v := in.Get(name); len(v) == 1 && len(v[0]) <= maxHeader {
			out.Set(name, v[0])
		}
	}
	if m, ok := request.(proto.Message); ok {
		if more, err := proxy.ExtractTemporalRequestHeaders(ctx, proxy.ExtractHeadersOptions{Request: m}); err == nil {
			for i := 0; i+1 < len(more); i += 2 {
				out.Set(more[i], more[i+1])
			}
		}
	}
	return metadata.NewOutgoingContext(ctx, out)
}

func (g *Gateway) sealKey() ([]byte, error) {
	key := g.SealKey()
	if len(key) < minSealKey {
		return nil, status.Error(codes.Unavailable, "node gateway: there is no key for task tokens yet")
	}
	return key, nil
}

func (g *Gateway) signalRule(
	node string, in *workflowservice.SignalWorkflowExecutionRequest,
) (*workflowservice.SignalWorkflowExecutionRequest, error) {
	return g.signal(node, in)
}
