package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/agent"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// longestProbe bounds how long a caller may wait for the guest; a kubelet's probes take seconds.
const longestProbe = time.Hour

func limit(seconds int32) time.Duration {
	return min(time.Duration(max(1, seconds))*time.Second, longestProbe)
}

// suspended reports whether a probe counts as passed without asking the guest: a kubelet would kill one that a user has
// paused, or that is being moved.
func (s *Server) suspended() bool { return s.IsSuspended != nil && s.IsSuspended() }

// GuestPing implements the service.
func (s *Server) GuestPing(_ context.Context, r *rpc.GuestPingRequest) (*rpc.GuestPingResponse, error) {
	if s.suspended() {
		return &rpc.GuestPingResponse{}, nil
	}
	if err := agent.Ping(s.agent, limit(r.GetTimeoutSeconds())); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &rpc.GuestPingResponse{}, nil
}

// GuestExec implements the service.
func (s *Server) GuestExec(ctx context.Context, r *rpc.GuestExecRequest) (*rpc.GuestExecResponse, error) {
	if r.GetCommand() == "" {
		return nil, status.Error(codes.InvalidArgument, "the command is empty")
	}
	if s.suspended() {
		return &rpc.GuestExecResponse{}, nil
	}
	result, err := agent.Exec(ctx, s.agent, r.GetCommand(), r.GetArguments(), limit(r.GetTimeoutSeconds()))
	switch {
	case errors.Is(err, agent.ErrTimeout):
		return nil, status.Error(codes.DeadlineExceeded, err.Error())
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &rpc.GuestExecResponse{ExitCode: result.ExitCode, Output: result.Output}, nil
}
