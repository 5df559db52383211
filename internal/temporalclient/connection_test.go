package temporalclient

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/internal/pki"
)

// TestNewCA: a server with a new CA is reached as soon as the file has it, without a restart.
func TestNewCA(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	publish := func(dir string) {
		b, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, b, 0o600))
	}
	first, second := authority(t), authority(t)
	publish(first)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	stop := serve(t, listener, first)
	o := Options{Address: address, Namespace: "n", TLSCA: file, TLSServerName: "localhost"}

	plain, err := o.Connect()
	require.NoError(t, err)
	defer plain.Close()
	ask := func() codes.Code {
		_, err := workflowservice.NewWorkflowServiceClient(plain).
			GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{}, grpc.WaitForReady(true))
		return status.Code(err)
	}
	require.Equal(t, codes.Unimplemented, ask(), "it is reached, and does nothing")

	stop()
	publish(second)
	listener, err = net.Listen("tcp", address)
	require.NoError(t, err)
	defer serve(t, listener, second)()
	require.Eventually(t, func() bool { return ask() == codes.Unimplemented }, 10*time.Second, 10*time.Millisecond)

	options, err := o.ClientOptions(zerolog.Nop(), nil, "test")
	require.NoError(t, err)
	publish(first)
	_, err = client.DialContext(t.Context(), options)
	require.ErrorContains(t, err, "certificate signed by unknown authority", "the SDK's connection reads it again, too")
	publish(second)
	c, err := client.DialContext(t.Context(), options)
	require.NoError(t, err)
	c.Close()
}

func authority(t *testing.T) string {
	dir := t.TempDir()
	ca, err := pki.OpenAuthority(dir, "test")
	require.NoError(t, err)
	require.NoError(t, ca.Ensure(
		pki.Request{Name: "server", CommonName: "localhost", Names: []string{"localhost"}, ClientToo: true}))
	return dir
}

func serve(t *testing.T, l net.Listener, dir string) (stop func()) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
	require.NoError(t, err)
	s := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	workflowservice.RegisterWorkflowServiceServer(s, workflowservice.UnimplementedWorkflowServiceServer{})
	go func() { _ = s.Serve(l) }()
	return s.Stop
}
