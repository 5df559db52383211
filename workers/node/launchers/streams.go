package launchers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/rpc"
)

const (
	// attachTimeout is how long a launcher may take to connect to a device of its guest.
	attachTimeout = 10 * time.Second
	// readTimeout covers all requests to the guest's agent, one after another, each for 5 s.
	readTimeout = 45 * time.Second
	// piece is the limit of one message to a launcher, in bytes: with its header it fits into gRPC's buffer of 32 KiB.
	piece = 32<<10 - 64
	// largestPicture limits a screenshot, in bytes.
	largestPicture = 64 << 20
)

// The errors of a launcher that refuses, or ends, a connection with its guest.
var (
	// ErrBusy is the error if another session is to be preserved.
	ErrBusy = errors.New("there is another session")
	// ErrTakenOver is the error of a session that a newer one has ended.
	ErrTakenOver = errors.New("another session has taken over")
)

// Attached is a connection with a device of the guest. Read and Write may be called at the same time, by one caller
// each.
type Attached struct {
	stream grpc.BidiStreamingClient[rpc.AttachRequest, rpc.AttachResponse]
	cancel context.CancelFunc
	rest   []byte // received, not yet read
	of     *Launcher
}

// Attach connects with a device of the guest until ctx ends or the caller closes it. The error is ErrBusy, a
// RefusedError when there is no such device, or another.
func (l *Launcher) Attach(ctx context.Context, device rpc.Device, preserve bool) (*Attached, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(attachTimeout, cancel)
	defer late.Stop()
	stream, err := l.rpc.Attach(ctx)
	if err == nil {
		// Recv returns an error of Send.
		_ = stream.Send(&rpc.AttachRequest{Device: device, PreserveSession: preserve})
		_, err = stream.Recv()
	}
	if err != nil {
		cancel()
		if status.Code(err) == codes.AlreadyExists {
			return nil, ErrBusy
		}
		return nil, l.failure("connecting with the guest", err)
	}
	return &Attached{stream: stream, cancel: cancel, of: l}, nil
}

// Read reads what the device sends. io.EOF is its end.
func (a *Attached) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		m, err := a.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return 0, io.EOF
		case status.Code(err) == codes.Aborted:
			return 0, ErrTakenOver
		case err != nil:
			return 0, a.of.failure("reading from the guest", err)
		}
		a.rest = m.GetData()
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// Write sends to the device; it waits while the launcher takes no more.
func (a *Attached) Write(p []byte) (int, error) {
	for done := 0; done < len(p); done += piece {
		if err := a.stream.Send(&rpc.AttachRequest{Data: p[done:min(len(p), done+piece)]}); err != nil {
			return done, a.of.failure("writing to the guest", err)
		}
	}
	return len(p), nil
}

// Close ends the connection, so that Read and Write return.
func (a *Attached) Close() error {
	a.cancel()
	return nil
}

// Screenshot writes a picture of the guest's screen, a PNG if the launcher is honest.
func (l *Launcher) Screenshot(ctx context.Context, moveCursor bool, to io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	stream, err := l.rpc.Screenshot(ctx, &rpc.ScreenshotRequest{MoveCursor: moveCursor})
	if err != nil {
		return l.failure("taking a screenshot", err)
	}
	for total := 0; ; {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return l.failure("taking a screenshot", err)
		}
		if total += len(m.GetData()); total > largestPicture {
			return fmt.Errorf("taking a screenshot of pod %s: it has more than %d bytes", l.uid, largestPicture)
		}
		if _, err := to.Write(m.GetData()); err != nil {
			return fmt.Errorf("passing a screenshot on: %w", err)
		}
	}
}

// GuestDetails returns what the guest's agent reports of its guest: no more than a launcher forwards, and not to be
// trusted.
func (l *Launcher) GuestDetails(ctx context.Context) (*rpc.GuestDetailsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	d, err := l.rpc.GuestDetails(ctx, &rpc.GuestDetailsRequest{},
		grpc.MaxCallRecvMsgSize(rpc.MaxDetailsBytes))
	if err != nil {
		return nil, l.failure("asking the guest's agent", err)
	}
	if err := rpc.CheckDetails(d); err != nil {
		return nil, fmt.Errorf("asking the guest's agent of pod %s: %w", l.uid, err)
	}
	return d, nil
}
