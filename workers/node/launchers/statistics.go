package launchers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// The errors of a launcher that has no statistics.
var (
	// ErrNoGuest is the error if no guest runs at the launcher.
	ErrNoGuest = errors.New("no guest runs")
	// ErrNoStatistics is the error of a launcher of an earlier version.
	ErrNoStatistics = errors.New("the launcher is of an older version, which has no statistics")
	// ErrDisconnected is the error for a launcher whose connection is closed or closes during the call, for example
	// because it has ended.
	ErrDisconnected = errors.New("the launcher is not connected")
)

// Statistics returns what the launcher counts of its guest, until ctx ends. Sizes are limited and texts are sanitised;
// names and values are the launcher's, or the guest's.
func (l *Launcher) Statistics(ctx context.Context) (*rpc.StatisticsResponse, error) {
	s, err := l.rpc.Statistics(ctx, &rpc.StatisticsRequest{}, grpc.MaxCallRecvMsgSize(rpc.MaxStatisticsBytes))
	if err != nil && l.isClosed() {
		return nil, ErrDisconnected
	}
	switch status.Code(err) {
	case codes.OK:
	case codes.Unimplemented:
		return nil, ErrNoStatistics
	case codes.FailedPrecondition:
		return nil, ErrNoGuest
	case codes.DeadlineExceeded:
		return nil, fmt.Errorf("reading statistics of pod %s: %w", l.uid, context.DeadlineExceeded)
	default:
		return nil, l.failure("reading statistics", err)
	}
	if err := rpc.CheckStatistics(s); err != nil {
		return nil, fmt.Errorf("reading statistics of pod %s: %w", l.uid, err)
	}
	limitStatistics(s)
	return s, nil
}

// isClosed reports whether either side has closed the connection. gRPC closes it before the calls that are in progress
// fail.
func (l *Launcher) isClosed() bool {
	return errors.Is(l.conn.SetReadDeadline(time.Time{}), net.ErrClosed)
}

// limitStatistics sanitises what the guest's agent reports, and drops what cannot be true.
func limitStatistics(s *rpc.StatisticsResponse) {
	var kept []*rpc.GuestFileSystem
	for _, f := range s.GetFileSystems() {
		if f.GetUsedBytes() >= 0 && f.GetTotalBytes() >= 0 {
			kept = append(kept, &rpc.GuestFileSystem{
				DiskName:   sanitize(f.GetDiskName(), maxGuestText),
				MountPoint: sanitize(f.GetMountPoint(), maxGuestText),
				Type:       sanitize(f.GetType(), maxName), UsedBytes: f.GetUsedBytes(), TotalBytes: f.GetTotalBytes(),
			})
		}
	}
	s.FileSystems = kept
	for _, load := range []float64{
		s.GetLoad().GetOneMinute(), s.GetLoad().GetFiveMinutes(), s.GetLoad().GetFifteenMinutes(),
	} {
		if load < 0 || math.IsNaN(load) || math.IsInf(load, 1) {
			s.Load = nil
		}
	}
}
