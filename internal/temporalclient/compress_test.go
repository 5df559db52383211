package temporalclient

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // as Temporal's server has it
	"google.golang.org/grpc/stats"
)

// encodings is how the last request came.
type encodings struct{ last atomic.Value }

func (*encodings) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*encodings) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*encodings) HandleConn(context.Context, stats.ConnStats)                       {}

func (e *encodings) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		e.last.Store(h.Compression)
	}
}

// TestCompression: nothing is compressed unless that is asked for.
func TestCompression(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var seen encodings
	server := grpc.NewServer(grpc.StatsHandler(&seen))
	workflowservice.RegisterWorkflowServiceServer(server, workflowservice.UnimplementedWorkflowServiceServer{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	for compress, want := range map[bool]string{false: "", true: "gzip"} {
		o := Options{Address: listener.Addr().String(), Namespace: "n", Plaintext: true, Compress: compress}
		options, err := o.ClientOptions(zerolog.Nop(), nil, "test")
		require.NoError(t, err)
		c, err := client.NewLazyClient(options)
		require.NoError(t, err)
		_, _ = c.DescribeWorkflowExecution(t.Context(), "w", "")
		c.Close()
		require.Equal(t, want, seen.last.Load())
	}
}
