package server

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// Mover moves the guest away, and receives one. Errors carry a gRPC status.
type Mover interface {
	Describe(ctx context.Context) (*rpc.DescribeMigrationResponse, error)
	// File returns the content of a file that DescribeMigration has named.
	File(ctx context.Context, name string) ([]byte, error)
	// Prepare reads the files that the target names from files, one after the other.
	Prepare(ctx context.Context, target *rpc.Target, files io.Reader) (*rpc.Domain, error)
	Migrate(ctx context.Context, r *rpc.MigrateRequest, send func(*rpc.MigrationEvent) error) error
	Abort(ctx context.Context, r *rpc.AbortMigrationRequest) (*rpc.AbortMigrationResponse, error)
	Adjust(ctx context.Context, r *rpc.AdjustMigrationRequest) (*rpc.AdjustMigrationResponse, error)
	Finish(ctx context.Context, r *rpc.FinishMigrationRequest) (*rpc.Domain, error)
	Withdraw(ctx context.Context, r *rpc.WithdrawTargetRequest) (*rpc.WithdrawTargetResponse, error)
	MigrationStatus(ctx context.Context) (*rpc.MigrationStatusResponse, error)
}

// DescribeMigration implements the service.
func (s *Server) DescribeMigration(
	ctx context.Context, _ *rpc.DescribeMigrationRequest,
) (*rpc.DescribeMigrationResponse, error) {
	return s.Mover.Describe(ctx)
}

// ReadFile implements the service.
func (s *Server) ReadFile(r *rpc.ReadFileRequest, stream grpc.ServerStreamingServer[rpc.FilePiece]) error {
	content, err := s.Mover.File(stream.Context(), r.GetName())
	if err != nil {
		return err
	}
	_, err = pieces(func(p []byte) error { return stream.Send(&rpc.FilePiece{Data: p}) }).Write(content)
	return err
}

// PrepareTarget implements the service.
func (s *Server) PrepareTarget(stream grpc.ClientStreamingServer[rpc.PrepareTargetRequest, rpc.Domain]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetTarget() == nil {
		return status.Error(codes.InvalidArgument, "the first request must describe the target")
	}
	d, err := s.Mover.Prepare(stream.Context(), first.GetTarget(), &received{recv: stream.Recv})
	if err != nil {
		return err
	}
	return stream.SendAndClose(d)
}

// received reads the content that requests carry.
type received struct {
	recv func() (*rpc.PrepareTargetRequest, error)
	left []byte
}

func (r *received) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		next, err := r.recv()
		if err != nil {
			return 0, err
		}
		r.left = next.GetData()
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// Migrate implements the service.
func (s *Server) Migrate(r *rpc.MigrateRequest, stream grpc.ServerStreamingServer[rpc.MigrationEvent]) error {
	return s.Mover.Migrate(stream.Context(), r, stream.Send)
}

// AbortMigration implements the service.
func (s *Server) AbortMigration(
	ctx context.Context, r *rpc.AbortMigrationRequest,
) (*rpc.AbortMigrationResponse, error) {
	return s.Mover.Abort(ctx, r)
}

// AdjustMigration implements the service.
func (s *Server) AdjustMigration(
	ctx context.Context, r *rpc.AdjustMigrationRequest,
) (*rpc.AdjustMigrationResponse, error) {
	return s.Mover.Adjust(ctx, r)
}

// FinishMigration implements the service.
func (s *Server) FinishMigration(ctx context.Context, r *rpc.FinishMigrationRequest) (*rpc.Domain, error) {
	return s.Mover.Finish(ctx, r)
}

// WithdrawTarget implements the service.
func (s *Server) WithdrawTarget(
	ctx context.Context, r *rpc.WithdrawTargetRequest,
) (*rpc.WithdrawTargetResponse, error) {
	return s.Mover.Withdraw(ctx, r)
}

// MigrationStatus implements the service.
func (s *Server) MigrationStatus(
	ctx context.Context, _ *rpc.MigrationStatusRequest,
) (*rpc.MigrationStatusResponse, error) {
	return s.Mover.MigrationStatus(ctx)
}
