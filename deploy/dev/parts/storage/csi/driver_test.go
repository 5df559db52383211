package csi

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/stretchr/testify/require"
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
	config.Address = socket
	config.TargetPath, config.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	config.TestVolumeSize, config.TestVolumeExpandSize = 16*mib, 24*mib
	sanity.Test(t, config)
}
