package launchers_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/launchertest"
)

// TestStatisticsOfClosedConnection: a launcher that ends has not failed, whichever side notices first.
func TestStatisticsOfClosedConnection(t *testing.T) {
	for name, end := range map[string]func(l *launchers.Launcher, stop func()){
		"by the launcher":    func(_ *launchers.Launcher, stop func()) { stop() },
		"by the node worker": func(l *launchers.Launcher, _ func()) { l.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			node, launcher := launchertest.NewNode(t), launchertest.NewLauncher()
			called := make(chan struct{}, 2)
			launcher.Count = func(ctx context.Context) (*rpc.StatisticsResponse, error) {
				called <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			}
			stop := launchertest.Serve(t, node.AddPod(t, pod), launcher)
			l, err := node.Dialer().Connect(t.Context(), pod)
			require.NoError(t, err)
			t.Cleanup(l.Close)
			go func() {
				<-called
				end(l, stop)
			}()
			_, err = l.Statistics(t.Context())
			require.ErrorIs(t, err, launchers.ErrDisconnected)
			_, err = l.Statistics(t.Context())
			require.ErrorIs(t, err, launchers.ErrDisconnected, "it stays closed")
		})
	}
}

// connected returns a connection to a launcher whose statistics a test gives; nil: it is of an older version.
func connected(
	t *testing.T, count func(context.Context) (*rpc.StatisticsResponse, error),
) *launchers.Launcher {
	t.Helper()
	node := launchertest.NewNode(t)
	launcher := launchertest.NewLauncher()
	launcher.Count = count
	launchertest.Serve(t, node.AddPod(t, pod), launcher)
	l, err := node.Dialer().Connect(t.Context(), pod)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

func TestStatisticsAreLimited(t *testing.T) {
	l := connected(t, func(context.Context) (*rpc.StatisticsResponse, error) {
		return &rpc.StatisticsResponse{
			FileSystems: []*rpc.GuestFileSystem{
				{DiskName: "vda1\x00\n", MountPoint: strings.Repeat("/x", 1000), Type: "ext4", UsedBytes: 1,
					TotalBytes: 2, Disks: []*rpc.GuestDisk{{Serial: "s"}}},
				{MountPoint: "/negative", UsedBytes: -1},
			},
			Load: &rpc.GuestLoad{OneMinute: 1, FiveMinutes: math.NaN()},
		}, nil
	})
	s, err := l.Statistics(t.Context())
	require.NoError(t, err)
	require.Len(t, s.GetFileSystems(), 1)
	f := s.GetFileSystems()[0]
	require.Equal(t, "vda1", f.GetDiskName())
	require.Len(t, f.GetMountPoint(), 256)
	require.Empty(t, f.GetDisks())
	require.Nil(t, s.GetLoad())
}

func TestStatisticsThatAreRefused(t *testing.T) {
	type answer = func(context.Context) (*rpc.StatisticsResponse, error)
	fails := func(c codes.Code) answer {
		return func(context.Context) (*rpc.StatisticsResponse, error) { return nil, status.Error(c, "why") }
	}
	for name, c := range map[string]struct {
		count answer
		is    error
		text  string
	}{
		"no guest":      {count: fails(codes.FailedPrecondition), is: launchers.ErrNoGuest},
		"older version": {is: launchers.ErrNoStatistics},
		"no libvirt":    {count: fails(codes.Unavailable), text: "why"},
		"too large": {count: func(context.Context) (*rpc.StatisticsResponse, error) {
			return &rpc.StatisticsResponse{FileSystems: []*rpc.GuestFileSystem{
				{MountPoint: strings.Repeat("x", rpc.MaxStatisticsBytes)}}}, nil
		}, text: "larger than max"},
		"too many": {count: func(context.Context) (*rpc.StatisticsResponse, error) {
			s := &rpc.StatisticsResponse{}
			for range rpc.MaxVCPUs + 1 {
				s.Vcpus = append(s.Vcpus, &rpc.VCPUStatistics{})
			}
			return s, nil
		}, text: "limits"},
		"hangs": {count: func(ctx context.Context) (*rpc.StatisticsResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, is: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if name == "hangs" {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
			}
			defer cancel()
			_, err := connected(t, c.count).Statistics(ctx)
			require.Error(t, err)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			require.ErrorContains(t, err, c.text)
		})
	}
}
