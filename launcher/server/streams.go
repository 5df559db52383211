package server

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/attach"
	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// piece is the largest payload of one message of a stream, in bytes: with its header it fits into 32 KiB. A larger one
// takes gRPC's next buffer size, 1 MiB, which costs more than all the rest of the path.
const piece = 32<<10 - 64

// Screen takes pictures of the guest's screen.
type Screen interface {
	// Screenshot writes a PNG.
	Screenshot(ctx context.Context, to io.Writer) error
}

// Attach implements the service.
func (s *Server) Attach(stream grpc.BidiStreamingServer[rpc.AttachRequest, rpc.AttachResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	session, err := s.devices.Open(stream.Context(), first.GetDevice(), first.GetPreserveSession())
	switch {
	case errors.Is(err, attach.ErrBusy):
		return status.Error(codes.AlreadyExists, err.Error())
	case err != nil:
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	defer session.Close()
	if err := stream.Send(&rpc.AttachResponse{}); err != nil {
		return err
	}
	// It ends with this call, which cancels the stream, or it closes the session and so ends the call.
	go func() {
		defer session.Close()
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			if _, err := session.Write(r.GetData()); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, piece)
	for {
		n, err := session.Read(buffer)
		if n > 0 {
			if err := stream.Send(&rpc.AttachResponse{Data: buffer[:n]}); err != nil {
				return err
			}
		}
		if err != nil {
			if taken := session.Err(); taken != nil {
				return status.Error(codes.Aborted, taken.Error())
			}
			return nil // the device, or the caller, has disconnected
		}
	}
}

// Screenshot implements the service.
func (s *Server) Screenshot(r *rpc.ScreenshotRequest, stream grpc.ServerStreamingServer[rpc.ScreenshotResponse]) error {
	if r.GetMoveCursor() {
		// If the screen does not wake, its picture is dark.
		_ = s.devices.MoveCursor(stream.Context())
	}
	err := s.screen.Screenshot(stream.Context(), pieces(func(p []byte) error {
		return stream.Send(&rpc.ScreenshotResponse{Data: p})
	}))
	switch {
	case errors.Is(err, guest.ErrUnavailable):
		return status.Error(codes.Unavailable, err.Error())
	case err != nil:
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return nil
}

// pieces sends the data written to it in messages of a bounded size.
type pieces func([]byte) error

func (send pieces) Write(p []byte) (int, error) {
	for done := 0; done < len(p); done += piece {
		if err := send(p[done:min(len(p), done+piece)]); err != nil {
			return done, err
		}
	}
	return len(p), nil
}

// GuestDetails implements the service.
func (s *Server) GuestDetails(ctx context.Context, _ *rpc.GuestDetailsRequest) (*rpc.GuestDetailsResponse, error) {
	details, err := s.details.Ask(ctx)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return details, nil
}
