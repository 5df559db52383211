package launcher

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// idle is a hypervisor without a domain.
type idle struct{ Hypervisor }

func (idle) Changes() <-chan guest.Status { return nil }
func (idle) Reboots() <-chan struct{}     { return nil }

func (idle) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (idle) Ready() <-chan struct{} {
	ready := make(chan struct{})
	close(ready)
	return ready
}

// TestEndsByNodeWorker covers a launcher that missed the kubelet's signal: the node worker ends it, even before there
// is a domain.
func TestEndsByNodeWorker(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Socket: filepath.Join(dir, "s"), TerminationMessage: filepath.Join(dir, "message")}
	require.NoError(t, os.WriteFile(cfg.TerminationMessage, nil, 0o600))
	ended := make(chan error, 1)
	l := New(cfg, &v1.VirtualMachineInstance{}, Tools{Hypervisor: idle{}}, zerolog.Nop())
	go func() { ended <- l.Run(t.Context()) }()

	conn, err := grpc.NewClient("unix:"+cfg.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = rpc.NewLauncherClient(conn).
		Operate(ctx, &rpc.OperateRequest{Operation: rpc.Operation_OPERATION_END}, grpc.WaitForReady(true))
	require.NoError(t, err)
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-ctx.Done():
		require.Fail(t, "the launcher does not end")
	}
	message, err := os.ReadFile(cfg.TerminationMessage)
	require.NoError(t, err)
	require.Contains(t, string(message), "NeverRan")
}
