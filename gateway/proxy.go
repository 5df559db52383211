package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // a node worker may be configured to compress its requests
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/internal/inflight"
)

const (
	// maxRequest is the largest request that is read, in bytes. The largest one that a node worker sends is the report
	// of a node with all its CPU models and features, some 130 KB at most.
	maxRequest = 256 << 10
	maxHeaders = 32 << 10
	// A connection is one node worker's: two polls, the tasks that it works on, and signals. More calls wait in the
	// worker.
	maxStreams = 32
	// window bounds what is buffered of each call before it is read, in bytes: the least that gRPC has.
	window = 64 << 10
	// messageTimeout is the time for one message to arrive whole.
	messageTimeout = 10 * time.Second
	// The rate limit of one node: its worker signals about each of its VMs at once after a restart, and seldom more
	// than once a second later.
	callsPerSecond, callsAtOnce = 50, 1000
	// pollTimeout is longer than Temporal holds a poll; callTimeout is for everything else.
	pollTimeout, callTimeout = 3 * time.Minute, 30 * time.Second
	// maxHeader bounds the few headers that are forwarded, in bytes.
	maxHeader = 128
)

// Options configure a Gateway.
type Options struct {
	Log zerolog.Logger
	// Namespace is Temporal's.
	Namespace string
	// Temporal is the client that calls are forwarded with.
	Temporal workflowservice.WorkflowServiceClient
	Callers  *Callers
	Pods     *Pods
	// SealKey returns the key for task tokens, nil while there is none yet. OpenKeys returns those with which one may
	// have been sealed. All replicas must have each before one of them seals with it, and still after a restart.
	SealKey  func() []byte
	OpenKeys func() [][]byte
	// Registry gets the metrics; may be nil.
	Registry prometheus.Registerer
}

// Gateway forwards or refuses calls. It is safe for concurrent use.
type Gateway struct {
	Options
	rules    map[string]rule
	counters *counters
	methods  map[string]grpc.MethodDesc // of Temporal's service
	limits   rateLimits
	budgets  budgets
	recent   recent
	polls    inflight.Limit // open now, by node
	calls    inflight.Limit // the same of everything else
	sampled  zerolog.Logger
	now      func() time.Time
	// messageTimeout is the constant, but in tests.
	messageTimeout time.Duration
}

// New makes a Gateway.
func New(o Options) *Gateway {
	g := &Gateway{
		Options: o, rules: rules(), counters: newCounters(o.Registry), methods: map[string]grpc.MethodDesc{},
		limits: newRateLimits(callsPerSecond, callsAtOnce), now: time.Now, messageTimeout: messageTimeout,
		budgets: newBudgets(), recent: newRecent(),
		// A node may be refused a thousand times a second; the metric counts them all.
		sampled: o.Log.Sample(&zerolog.BurstSampler{Burst: 20, Period: 10 * time.Second}),
	}
	for _, m := range workflowservice.WorkflowService_ServiceDesc.Methods {
		g.methods[m.MethodName] = m
	}
	return g
}

// Limit bounds how many connections a listener has open: the server is to serve what it returns.
func (g *Gateway) Limit(l net.Listener) net.Listener {
	return newConnections(l, unauthenticatedLife, g.counters.closed)
}

// Server makes the gRPC server that nodes talk to. It knows no service, so that every call is admitted or refused
// before its message is read.
func (g *Gateway) Server(secure credentials.TransportCredentials) (*grpc.Server, error) {
	service, err := proxy.NewWorkflowServiceProxyServer(
		proxy.WorkflowServiceProxyOptions{Client: g.Temporal, DisableHeaderForwarding: true})
	if err != nil {
		return nil, fmt.Errorf("making the proxy: %w", err)
	}
	return grpc.NewServer(
		grpc.Creds(trackedCredentials{secure}),
		grpc.InTapHandle(g.authenticate),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error { return g.serve(service, stream) }),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.ConnectionTimeout(unauthenticatedLife),
		// The SDK's clients ping every 30 s, also when they are idle.
		grpc.KeepaliveEnforcementPolicy(
			keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 5 * time.Minute, Time: time.Minute,
			Timeout: 20 * time.Second}),
	), nil
}

// authenticate refuses a call at its headers: on an unauthenticated connection unless its token is valid, on any other
// one if it has none. Nothing more of an unauthenticated connection is read meanwhile.
func (g *Gateway) authenticate(ctx context.Context, call *tap.Info) (context.Context, error) {
	with := metadata.NewIncomingContext(ctx, call.Header)
	c := connectionOf(ctx)
	var caller *Caller
	var err error
	if c == nil || c.isAuthenticated() {
		if _, refusal := bearer(with); refusal != nil {
			err = refusal
		}
	} else if caller, err = g.Callers.Authenticate(with); err == nil {
		err = c.authenticate(caller.Node)
	}
	if err != nil {
		return nil, g.recordRefusal(g.counters.label(call.FullMethodName), caller, err)
	}
	return ctx, nil
}

// serve admits, reads, forwards and answers one call.
func (g *Gateway) serve(service workflowservice.WorkflowServiceServer, stream grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(stream)
	method := g.counters.label(full)
	caller, release, err := g.admit(stream.Context(), method)
	if err != nil {
		return g.recordRefusal(method, caller, err)
	}
	defer release()
	answer, err := g.methods[method].Handler(service, stream.Context(),
		func(request any) error { return g.receive(stream, request) },
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return g.forward(ctx, caller.Node, method, request, next)
		})
	if err != nil {
		return g.recordRefusal(method, caller, err)
	}
	return stream.SendMsg(answer)
}

// admit returns which node calls, and counts the call while it is open, before its message is read.
func (g *Gateway) admit(ctx context.Context, method string) (*Caller, func(), error) {
	caller, err := g.Callers.Authenticate(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !g.limits.allow(caller.Node, g.now(), 1) {
		return caller, nil, refuse(ReasonTooMany, "node %s calls too often", caller.Node)
	}
	if _, ok := g.rules[method]; !ok {
		return caller, nil, refuse(ReasonMethod, "a node may not call %s", method)
	}
	release, err := g.acquire(caller.Node, method)
	return caller, release, err
}

// receive reads the message of a call.
func (g *Gateway) receive(stream grpc.ServerStream, request any) error {
	received := make(chan error, 1)
	go func() { received <- stream.RecvMsg(request) }() // ends with the call
	late := time.NewTimer(g.messageTimeout)
	defer late.Stop()
	var err error
	select {
	case err = <-received:
	case <-late.C:
		return refuse(ReasonSlow, "the request has not arrived within %s", g.messageTimeout)
	}
	switch status.Code(err) { //nolint:exhaustive // others mean that it is malformed
	case codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
		return err // received, or the caller went away
	case codes.ResourceExhausted:
		return refuse(ReasonTooLarge, "the request is larger than %d bytes", maxRequest)
	}
	return refuse(ReasonMalformed, "the request cannot be read: %.200s", err.Error())
}

// forward sends Temporal a request as the method's rule rewrites it.
func (g *Gateway) forward(ctx context.Context, node, method string, request any, next grpc.UnaryHandler) (any, error) {
	request, err := g.rewrite(node, method, request)
	if err != nil {
		return nil, err
	}
	repeated, answered := g.recent.check(request)
	if repeated {
		g.counters.repeated.Inc()
		return &workflowservice.SignalWorkflowExecutionResponse{}, nil
	}
	refund, err := g.budgets.spend(node, request, g.now())
	if err != nil {
		return nil, err
	}
	limit := callTimeout
	if isPoll(method) {
		limit = pollTimeout
	}
	out, cancel := context.WithTimeout(outgoing(ctx, request), limit)
	defer cancel()
	answer, err := next(out, request)
	answered(err)
	g.counters.passed.WithLabelValues(method, status.Code(err).String()).Inc()
	if err != nil {
		if isUnwritten(err) {
			refund()
		}
		return nil, err
	}
	return answer, g.sealAnswer(node, answer)
}

// rewrite returns the request that is forwarded instead of a node's.
func (g *Gateway) rewrite(node, method string, request any) (any, error) {
	if err := g.ownNamespace(request); err != nil {
		return nil, err
	}
	return g.rules[method](g, node, request)
}

// recordRefusal counts and logs a call that is not forwarded, and returns the error for the caller.
func (g *Gateway) recordRefusal(method string, caller *Caller, err error) error {
	var r *Refusal
	if !errors.As(err, &r) {
		return err // not a refusal: the call failed
	}
	g.counters.refused.WithLabelValues(method, string(r.Reason)).Inc()
	line := g.sampled.Warn().Str("method", method).Str("reason", string(r.Reason)).Str("why", r.Message)
	if caller != nil {
		line = line.Str("node", caller.Node).Str("pod", caller.Pod)
	}
	line.Msg("refused a call")
	return r.GRPCStatus().Err()
}

// outgoing returns a context with the headers for Temporal: those that describe the SDK, and those that route the
// request. The node's token is not among them.
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
