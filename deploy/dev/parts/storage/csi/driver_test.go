package csi

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

// TestSanity holds the driver to CSI's own conformance tests. They mount, so that they need root.
func TestSanity(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir, err := os.MkdirTemp("", "csi-") // a socket's path is short
	require.NoError(t, err)
	socket := filepath.Join(dir, "s")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- New(filepath.Join(dir, "storage"), "node").Serve(ctx, socket) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended); _ = os.RemoveAll(dir) })

	config := sanity.NewTestConfig()
	// The suite waits for its connection to become ready, for a minute, and does not see that it is so already.
	config.Address = "passthrough:///" + socket
	config.DialOptions = append(config.DialOptions,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			time.Sleep(50 * time.Millisecond)
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}))
	config.TargetPath, config.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	config.TestVolumeSize, config.TestVolumeExpandSize = 16*mib, 24*mib
	sanity.Test(t, config)
}
