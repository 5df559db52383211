package devices

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/util/wait"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// Resources by KubeVirt's names.
	KVM      = "devices.kubevirt.io/kvm"
	Tun      = "devices.kubevirt.io/tun"
	VhostNet = "devices.kubevirt.io/vhost-net"

	registerTimeout = 10 * time.Second
)

// Plugin offers one device node.
type Plugin struct {
	api.UnimplementedDevicePluginServer

	// Resource is the name that pods request.
	Resource string
	// Path is the path of the device, on the node and in the pods.
	Path string
	// Exists reports whether the node has the device at that moment; without it pods are created all the same, and do
	// not get it. Nil: it has.
	Exists func() bool
	// Count is how many pods may have it at a time, until Offer changes it; 0 offers none, and the resource is known
	// nevertheless.
	Count int
	// Dir is where the kubelet's device plugin sockets are, usually /var/lib/kubelet/device-plugins.
	Dir string
	Log zerolog.Logger

	registered atomic.Bool

	mu      sync.Mutex
	changed chan struct{} // closed at the next change of Count; nil: nothing waits for it
}

// Offer changes how many pods may have the device at a time. Those that have it keep it.
func (p *Plugin) Offer(count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Count = count
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// offered returns how many pods may have the device, and a channel that is closed when that changes.
func (p *Plugin) offered() (count int, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.Count, p.changed
}

// Ready fails while the plugin is not registered with the kubelet.
func (p *Plugin) Ready(context.Context) error {
	if !p.registered.Load() {
		return fmt.Errorf("the kubelet does not know of %s yet", p.Resource)
	}
	return nil
}

// Run serves the plugin and registers it with the kubelet, again after each start of the kubelet, until ctx ends.
func (p *Plugin) Run(ctx context.Context) {
	log := p.Log.With().Str("resource", p.Resource).Logger()
	fresh := wait.Backoff{Duration: time.Second, Factor: 2, Steps: 5, Cap: 10 * time.Second}
	for pauses := fresh; ; {
		err := p.serve(ctx, log)
		p.registered.Store(false)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			pauses = fresh
			log.Info().Msg("restarting the plugin after a start of the kubelet")
			continue
		}
		pause := pauses.Step()
		log.Warn().Err(err).Dur("again_in", pause).Msg("failed to offer a device to the kubelet; it will be retried")
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// serve returns nil when the kubelet has started again.
func (p *Plugin) serve(ctx context.Context, log zerolog.Logger) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching for the kubelet: %w", err)
	}
	defer watcher.Close()
	if err := watcher.Add(p.Dir); err != nil {
		return fmt.Errorf("watching for the kubelet in %s: %w", p.Dir, err)
	}
	endpoint := filepath.Join(p.Dir, p.socket())
	if err := os.Remove(endpoint); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing an old socket: %w", err)
	}
	listener, err := net.Listen("unix", endpoint)
	if err != nil {
		return fmt.Errorf("opening a socket for the kubelet: %w", err)
	}
	server := grpc.NewServer()
	defer server.Stop()
	api.RegisterDevicePluginServer(server, p)
	broken := make(chan error, 1)
	go func() { broken <- server.Serve(listener) }()
	if err := p.register(ctx); err != nil {
		return err
	}
	p.registered.Store(true)
	count, _ := p.offered()
	log.Info().Int("count", count).Str("device", p.Path).Msg("offered a device to the kubelet")
	kubelet := filepath.Join(p.Dir, filepath.Base(api.KubeletSocket))
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-broken:
			return fmt.Errorf("serving the kubelet: %w", err)
		case err := <-watcher.Errors:
			return fmt.Errorf("watching for the kubelet: %w", err)
		case e := <-watcher.Events:
			// A starting kubelet removes every socket and makes its own.
			if e.Name == kubelet && e.Has(fsnotify.Create) {
				return nil
			}
		}
	}
}

func (p *Plugin) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+filepath.Join(p.Dir, filepath.Base(api.KubeletSocket)),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("speaking to the kubelet: %w", err)
	}
	defer conn.Close()
	_, err = api.NewRegistrationClient(conn).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: p.socket(), ResourceName: p.Resource, Options: &api.DevicePluginOptions{},
	})
	if err != nil {
		return fmt.Errorf("registering with the kubelet: %w", err)
	}
	return nil
}

// socket returns the name of the plugin's own socket: virtflow-tun.sock.
func (p *Plugin) socket() string {
	return "virtflow-" + p.Resource[strings.LastIndex(p.Resource, "/")+1:] + ".sock"
}

// GetDevicePluginOptions returns none.
func (p *Plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices, and again when their number changes.
func (p *Plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	for {
		count, changed := p.offered()
		devices := make([]*api.Device, count)
		for i := range devices {
			devices[i] = &api.Device{ID: fmt.Sprintf("%s%d", filepath.Base(p.Path), i), Health: api.Healthy}
		}
		if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// Allocate puts the device into the container, if the node has it.
func (p *Plugin) Allocate(_ context.Context, r *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for range r.GetContainerRequests() {
		container := &api.ContainerAllocateResponse{}
		if p.Exists == nil || p.Exists() {
			container.Devices = []*api.DeviceSpec{{HostPath: p.Path, ContainerPath: p.Path, Permissions: "rw"}}
		}
		answer.ContainerResponses = append(answer.ContainerResponses, container)
	}
	return answer, nil
}
