package devices

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const deadline = 10 * time.Second

// kubelet is the registry that a kubelet serves.
type kubelet struct {
	api.UnimplementedRegistrationServer
	asked chan *api.RegisterRequest
}

func (k *kubelet) Register(_ context.Context, r *api.RegisterRequest) (*api.Empty, error) {
	k.asked <- r
	return &api.Empty{}, nil
}

// startKubelet does what a starting kubelet does: it empties the directory, then opens its socket.
func startKubelet(t *testing.T, dir string) (asked chan *api.RegisterRequest, stop func()) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	l, err := net.Listen("unix", filepath.Join(dir, "kubelet.sock"))
	require.NoError(t, err)
	s := grpc.NewServer()
	k := &kubelet{asked: make(chan *api.RegisterRequest, 1)}
	api.RegisterRegistrationServer(s, k)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return k.asked, s.Stop
}

func TestPluginRegistersWithEveryKubelet(t *testing.T) {
	dir := t.TempDir()
	p := &Plugin{Resource: Tun, Path: "/dev/net/tun", Count: 3, Dir: dir, Log: zerolog.Nop()}
	require.ErrorContains(t, p.Ready(context.Background()), "does not know")
	asked, stop := startKubelet(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	defer func() { cancel(); <-done }()

	r := registration(t, asked)
	require.Equal(t, "devices.kubevirt.io/tun", r.GetResourceName())
	require.Equal(t, api.Version, r.GetVersion())
	require.Len(t, offered(t, filepath.Join(dir, r.GetEndpoint())), 3)
	require.Eventually(t, func() bool { return p.Ready(ctx) == nil }, deadline, time.Millisecond)

	stop()
	asked, _ = startKubelet(t, dir)
	r = registration(t, asked)
	require.Len(t, offered(t, filepath.Join(dir, r.GetEndpoint())), 3)
}

// TestOfferChangesCount: nothing at first, which the kubelet knows of nevertheless, then some, then nothing again.
func TestOfferChangesCount(t *testing.T) {
	dir := t.TempDir()
	asked, _ := startKubelet(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := &Plugin{Resource: KVM, Path: "/dev/kvm", Dir: dir, Log: zerolog.Nop()}
	go p.Run(ctx)
	stream := watch(t, filepath.Join(dir, registration(t, asked).GetEndpoint()))
	for _, count := range []int{0, 5, 0} {
		p.Offer(count)
		require.Eventually(t, func() bool {
			list, err := stream.Recv()
			require.NoError(t, err)
			return len(list.GetDevices()) == count
		}, deadline, time.Millisecond)
	}
}

// TestAllocate: a pod gets what the node has when the pod is made.
func TestAllocate(t *testing.T) {
	for name, c := range map[string]struct {
		there func() bool
		want  bool
	}{
		"always":   {want: true},
		"there":    {there: func() bool { return true }, want: true},
		"not here": {there: func() bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Plugin{Resource: VhostNet, Path: "/dev/vhost-net", Exists: c.there}
			a, err := p.Allocate(context.Background(), &api.AllocateRequest{
				ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: []string{"vhost-net0"}}}})
			require.NoError(t, err)
			require.Len(t, a.GetContainerResponses(), 1)
			got := a.GetContainerResponses()[0].GetDevices()
			if !c.want {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			require.Equal(t, "/dev/vhost-net", got[0].GetHostPath())
			require.Equal(t, "/dev/vhost-net", got[0].GetContainerPath())
			require.Equal(t, "rw", got[0].GetPermissions())
		})
	}
}

func registration(t *testing.T, asked chan *api.RegisterRequest) *api.RegisterRequest {
	select {
	case r := <-asked:
		return r
	case <-time.After(deadline):
		require.Fail(t, "the plugin does not register")
		return nil
	}
}

// offered is what the kubelet receives at first.
func offered(t *testing.T, socket string) []*api.Device {
	list, err := watch(t, socket).Recv()
	require.NoError(t, err)
	return list.GetDevices()
}

// watch asks as the kubelet does.
func watch(t *testing.T, socket string) grpc.ServerStreamingClient[api.ListAndWatchResponse] {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	stream, err := api.NewDevicePluginClient(conn).ListAndWatch(ctx, &api.Empty{})
	require.NoError(t, err)
	return stream
}
