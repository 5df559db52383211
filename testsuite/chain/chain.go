package chain

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/virtflow/virtflow/api/subresources"
	"github.com/virtflow/virtflow/api/subresources/streams"
	"github.com/virtflow/virtflow/api/subresources/streams/plain"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/certificates"
	"github.com/virtflow/virtflow/launcher/agent"
	"github.com/virtflow/virtflow/launcher/attach"
	"github.com/virtflow/virtflow/launcher/domainstate"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/launcher/server"
	"github.com/virtflow/virtflow/workers/node/access"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/launchertest"
)

// Names of the one guest.
const (
	Namespace = "default"
	Name      = "web"
	Node      = "node1"
	VMI       = "0f1e9c1e-0b5d-4c6e-8f70-112233445566" // UID
	Pod       = "3f2a9c1e-0b5d-4c6e-8f70-112233445566" // UID
)

// Options configure a chain.
type Options struct {
	Access  access.Bounds
	Streams streams.Bounds
	// Origins are those of streams.Options; nil: its default.
	Origins []string
	// Objects replace the VMI; nil: a running VMI with everything.
	Objects []client.Object
	// Agent answers for the guest's agent; nil: there is none.
	Agent func(command string) (string, error)
	// Picture is the content of a screenshot.
	Picture []byte
	// Guest dials ports of the guest.
	Guest func(network string, port uint16) (net.Conn, error)
	// Owner of the pod; "": the VMI.
	Owner string
}

// Chain is a complete path from a client to a guest's devices.
type Chain struct {
	// URL of the API server.
	URL string
	// Serial and VNC receive the connections that QEMU accepts at its sockets.
	Serial, VNC chan net.Conn
	// USB receive the connections that are accepted at the two ports for users' USB devices.
	USB [2]chan net.Conn
	// AccessAddress is the node worker's, Certificates are those of its clients.
	AccessAddress string
	Certificates  *certificates.Access
	// Cluster has the objects.
	Cluster client.Client
	// Streams are the API server's handlers.
	Streams *streams.Streams
	dialer  *websocket.Dialer
}

// Running returns the VMI of the chain.
func Running() *kubevirtv1.VirtualMachineInstance {
	return &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name, UID: VMI},
		Status: kubevirtv1.VirtualMachineInstanceStatus{
			Phase: kubevirtv1.Running, NodeName: Node, ActivePods: map[types.UID]string{Pod: Node},
			Interfaces: []kubevirtv1.VirtualMachineInstanceNetworkInterface{{IP: "10.1.2.3"}},
			Conditions: []kubevirtv1.VirtualMachineInstanceCondition{
				{Type: kubevirtv1.VirtualMachineInstanceAgentConnected, Status: corev1.ConditionTrue}},
		},
	}
}

// New returns a chain that ends with the test.
func New(t testing.TB, o Options) *Chain {
	t.Helper()
	c := &Chain{}
	kubelet := c.launcher(t, &o)
	if o.Objects == nil {
		o.Objects = []client.Object{Running()}
	}
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, kubevirtv1.AddToScheme(scheme))
	names := certificates.AccessOptions{
		Own:   types.NamespacedName{Namespace: "virtflow", Name: "own"},
		Nodes: types.NamespacedName{Namespace: "virtflow", Name: "nodes"},
	}
	c.Cluster = fake.NewClientBuilder().WithScheme(scheme).WithObjects(o.Objects...).WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: names.Own.Namespace, Name: names.Own.Name}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: names.Nodes.Namespace, Name: names.Nodes.Name}},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: "worker",
				Labels: map[string]string{"app.kubernetes.io/name": "virtflow-node-worker"}},
			Spec:   corev1.PodSpec{NodeName: Node},
			Status: corev1.PodStatus{PodIP: "127.0.0.1", Phase: corev1.PodRunning},
		},
	).WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	}).Build()
	c.Certificates = certificates.NewAccess(c.Cluster, c.Cluster, names, zerolog.Nop())
	require.NoError(t, c.Certificates.Refresh(t.Context()))
	port := c.nodeWorker(t, &o, kubelet, Mount(t, c.Cluster, names.Nodes))
	c.api(t, &o, port)
	return c
}

// Mount writes a Secret into a directory, as the kubelet does.
func Mount(t testing.TB, c client.Client, name types.NamespacedName) string {
	t.Helper()
	secret := &corev1.Secret{}
	require.NoError(t, c.Get(t.Context(), name, secret))
	dir := t.TempDir()
	for file, content := range secret.Data {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), content, 0o600))
	}
	return dir
}

// launcher serves in the pod's directory.
func (c *Chain) launcher(t testing.TB, o *Options) launchertest.Node {
	kubelet := launchertest.NewNode(t)
	socket := kubelet.AddPod(t, Pod)
	// A socket's path must be short; the link is on the launcher's side, whose own path in the pod is short, too.
	short, err := os.MkdirTemp("", "vf")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	require.NoError(t, os.Symlink(filepath.Dir(socket), filepath.Join(short, "s")))
	c.Serial, c.VNC = device(t, filepath.Join(short, "serial")), device(t, filepath.Join(short, "vnc"))
	usb := []string{filepath.Join(short, "usb0"), filepath.Join(short, "usb1")}
	c.USB = [2]chan net.Conn{device(t, usb[0]), device(t, usb[1])}
	answers := channel(func(command string) (string, error) {
		if o.Agent == nil {
			return "", errors.New("the agent does not answer")
		}
		return o.Agent(command)
	})
	s := server.New("test", nil, domainstate.New(), server.Guest{
		Agent: answers, Details: agent.NewDetails(answers),
		Screen: screen(o.Picture),
		Devices: attach.NewDevices(map[rpc.Device][]string{
			rpc.Device_DEVICE_SERIAL_CONSOLE:  {filepath.Join(short, "serial")},
			rpc.Device_DEVICE_VNC:             {filepath.Join(short, "vnc")},
			rpc.Device_DEVICE_USB_REDIRECTION: usb,
		}),
	})
	require.NoError(t, s.Listen(filepath.Join(short, "s", filepath.Base(socket))))
	t.Cleanup(s.Stop)
	return kubelet
}

// device is a socket of QEMU's, which accepts one client after the other.
func device(t testing.TB, path string) chan net.Conn {
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	accepted := make(chan net.Conn, 64)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	return accepted
}

type channel func(string) (string, error)

func (a channel) AgentCommand(command string, _ time.Duration) (string, error) { return a(command) }

type screen []byte

func (s screen) Screenshot(_ context.Context, to io.Writer) error {
	if s == nil {
		return errors.New("there is no screen")
	}
	_, err := to.Write(s)
	return err
}

// reached is a launcher with the test's Dial function for its guest.
type reached struct {
	*launchers.Launcher
	guest func(network string, port uint16) (net.Conn, error)
}

func (r reached) DialGuest(_ context.Context, network string, port uint16) (net.Conn, error) {
	if r.guest == nil {
		return nil, errors.New("dialing VM: no guest listens")
	}
	return r.guest(network, port)
}

func (c *Chain) nodeWorker(t testing.TB, o *Options, kubelet launchertest.Node, credentials string) (port int) {
	if o.Owner == "" {
		o.Owner = VMI
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c.AccessAddress = l.Addr().String()
	s := access.New(access.Options{
		Log: zerolog.Nop(), Credentials: credentials, Bounds: o.Access,
		Owner: func(pod string) (contract.Object, bool) {
			return contract.Object{Namespace: Namespace, Name: Name, UID: o.Owner}, pod == Pod
		},
		Connect: func(ctx context.Context, pod string) (access.Launcher, error) {
			l, err := kubelet.Dialer().Connect(ctx, pod)
			if err != nil {
				return nil, err
			}
			return reached{l, o.Guest}, nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return l.Addr().(*net.TCPAddr).Port
}

func (c *Chain) api(t testing.TB, o *Options, port int) {
	c.Streams = streams.New(streams.Options{
		Log: zerolog.Nop(), Lookup: subresources.Lookup{Reader: c.Cluster}, Bounds: o.Streams,
		Origins: o.Origins,
		Nodes: &streams.Nodes{Reader: c.Cluster, Namespace: "virtflow", Label: "virtflow-node-worker",
			Client: c.Certificates.Client, Port: port},
	})
	h := c.Streams.Handlers()
	byPath := map[string]subresources.Handler{
		"vmi/console": h.Console, "vmi/vnc": h.VNC, "vmi/screenshot": h.Screenshot, "vmi/usbredir": h.USBRedir,
		"vmi/vsock":       h.VSOCK,
		"vmi/portforward": h.PortForwardVMI, "vm/portforward": h.PortForwardVM,
		"vmi/guestosinfo": h.GuestOSInfo, "vmi/userlist": h.UserList, "vmi/filesystemlist": h.FilesystemList,
	}
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// /NAME/KIND/SUBRESOURCE/REST… by USER: package subresources does the routing and authorisation.
		parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
		request := &subresources.Request{
			Request: r, User: subresources.User{Name: r.Header.Get("User")}, Namespace: Namespace, Name: parts[0],
			Rest: parts[3:],
		}
		if err := byPath[parts[1]+"/"+parts[2]](w, request); err != nil {
			subresources.Fail(w, err)
		}
	}))
	c.URL = api.URL
	t.Cleanup(func() {
		c.Streams.Close()
		api.CloseClientConnections()
		api.Close()
	})
	c.dialer = &websocket.Dialer{
		TLSClientConfig: &tls.Config{RootCAs: api.Client().Transport.(*http.Transport).
			TLSClientConfig.RootCAs}, Subprotocols: []string{plain.Subprotocol}}
}

// Dial opens a stream, as KubeVirt's client does. For a refusal it returns the answer's code and text instead of a
// connection.
func (c *Chain) Dial(t testing.TB, path, user string) (conn *websocket.Conn, code int, text string) {
	t.Helper()
	return c.DialWith(t, path, http.Header{"User": {user}})
}

// DialWith is Dial with further headers.
func (c *Chain) DialWith(t testing.TB, path string, header http.Header) (conn *websocket.Conn, code int, text string) {
	t.Helper()
	conn, answer, err := c.dialer.Dial("wss"+strings.TrimPrefix(c.URL, "https")+path, header)
	if err == nil {
		return conn, answer.StatusCode, ""
	}
	require.ErrorIs(t, err, websocket.ErrBadHandshake)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return nil, answer.StatusCode, string(b)
}

// Get sends a request that opens no stream, and returns code and body.
func (c *Chain) Get(t testing.TB, path string) (code int, contentType, body string) {
	t.Helper()
	return c.GetWith(t, path, http.Header{})
}

// GetWith is Get with further headers.
func (c *Chain) GetWith(t testing.TB, path string, header http.Header) (code int, contentType, body string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: c.dialer.TLSClientConfig, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL+path, nil)
	require.NoError(t, err)
	request.Header = header
	answer, err := (&http.Client{Transport: transport}).Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, answer.Header.Get("Content-Type"), string(b)
}
