package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/virtflow/virtflow/launcher/agent"
	"github.com/virtflow/virtflow/launcher/attach"
	"github.com/virtflow/virtflow/launcher/domainstate"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// Protocol is the version of the protocol that this launcher supports.
const Protocol = 2

const (
	// farewell is the time that calls in progress have to end when the launcher does.
	farewell = time.Second
	// pingInterval is the interval of keep-alives, which detect watchers whose process was killed while the socket
	// remains.
	pingInterval = 30 * time.Second
	// largestRequest is far above the size of a start request, which names a handful of interfaces.
	largestRequest = 64 << 10
	// window is how many bytes a caller may send ahead.
	window = 64 << 10
)

// Starter starts the domain; errors carry a gRPC status.
type Starter func(ctx context.Context, interfaces []*rpc.PodInterface) (*rpc.Domain, error)

// Server implements rpc.LauncherServer.
type Server struct {
	rpc.UnimplementedLauncherServer
	// Operator carries out operations on the running domain; set it before Listen. Errors carry a gRPC status.
	Operator func(context.Context, *rpc.OperateRequest) (*rpc.Domain, error)
	// Counter returns the guest's statistics; set it before Listen. Errors carry a gRPC status.
	Counter func(context.Context) (*rpc.StatisticsResponse, error)
	// Wanted returns what the guest needs in the pod's network namespace; set it before Listen. Errors carry a gRPC
	// status.
	Wanted func() ([]*rpc.GuestNetwork, error)
	// IsSuspended reports whether the guest is expected not to answer; set it before Listen, or leave it nil.
	IsSuspended func() bool
	// Mover handles migrations; set it before Listen.
	Mover Mover

	version string
	start   Starter
	domain  *domainstate.Store
	agent   agent.Channel
	details *agent.Details
	devices *attach.Devices
	screen  Screen
	grpc    *grpc.Server
}

// Guest has the interfaces to the running guest.
type Guest struct {
	Agent agent.Channel
	// Details has the agent's answers.
	Details *agent.Details
	Devices *attach.Devices
	Screen  Screen
}

// New returns a server that answers from the domain's state, forwards requests to the guest's agent, and connects
// callers to its devices.
func New(version string, start Starter, domain *domainstate.Store, g Guest) *Server {
	s := &Server{version: version, start: start, domain: domain, agent: g.Agent, details: g.Details, devices: g.Devices,
		screen: g.Screen}
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(largestRequest),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingInterval}),
		grpc.KeepaliveEnforcementPolicy(
			keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		// Buffers for a few callers with small messages: the defaults would cost more memory than everything else here.
		// Windows of a fixed size bound how much of a console may be in transit; the write buffer exists only during a
		// write.
		grpc.ReadBufferSize(4<<10), grpc.WriteBufferSize(piece), grpc.MaxConcurrentStreams(64),
		grpc.StaticStreamWindowSize(window),
	)
	rpc.RegisterLauncherServer(s.grpc, s)
	return s
}

// Listen opens the socket and serves on it. The socket gets its final name only once it listens, so a caller that sees
// it can connect. It is accessible to this user and its group; the node worker is root.
func (s *Server) Listen(path string) error {
	part := path + ".part"
	for _, p := range []string{part, path} {
		if err := os.Remove(p); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("removing an earlier socket: %w", err)
		}
	}
	listener, err := net.Listen("unix", part)
	if err != nil {
		return fmt.Errorf("opening the launcher's socket: %w", err)
	}
	if l, ok := listener.(*net.UnixListener); ok {
		l.SetUnlinkOnClose(false)
	}
	if err := os.Chmod(part, 0o600); err != nil {
		return fmt.Errorf("protecting the launcher's socket: %w", err)
	}
	go s.grpc.Serve(listener) //nolint:errcheck // it ends with Stop
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("renaming the launcher's socket: %w", err)
	}
	return nil
}

// Stop waits briefly for calls in progress, and ends the rest.
func (s *Server) Stop() {
	done := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(farewell):
		s.grpc.Stop()
	}
}

// Info implements the service.
func (s *Server) Info(context.Context, *rpc.InfoRequest) (*rpc.InfoResponse, error) {
	return &rpc.InfoResponse{Protocol: Protocol, Version: s.version}, nil
}

// Networks implements rpc.LauncherServer.
func (s *Server) Networks(context.Context, *rpc.NetworksRequest) (*rpc.NetworksResponse, error) {
	networks, err := s.Wanted()
	if err != nil {
		return nil, err
	}
	return &rpc.NetworksResponse{Networks: networks}, nil
}

// StartDomain implements the service.
func (s *Server) StartDomain(ctx context.Context, r *rpc.StartDomainRequest) (*rpc.Domain, error) {
	return s.start(ctx, r.GetInterfaces())
}

// GetDomain implements the service.
func (s *Server) GetDomain(context.Context, *rpc.GetDomainRequest) (*rpc.Domain, error) {
	return s.domain.Domain(), nil
}

// Operate implements the service.
func (s *Server) Operate(ctx context.Context, r *rpc.OperateRequest) (*rpc.Domain, error) {
	return s.Operator(ctx, r)
}

// Statistics implements the service.
func (s *Server) Statistics(ctx context.Context, _ *rpc.StatisticsRequest) (*rpc.StatisticsResponse, error) {
	return s.Counter(ctx)
}

// Watch implements the service.
func (s *Server) Watch(_ *rpc.WatchRequest, stream grpc.ServerStreamingServer[rpc.Domain]) error {
	for seen := uint64(0); ; {
		d, err := s.domain.Next(stream.Context(), seen)
		if err != nil || d == nil {
			return err
		}
		if err := stream.Send(d); err != nil {
			return err
		}
		seen = d.GetSequence()
	}
}
