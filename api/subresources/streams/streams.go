package streams

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/api/subresources"
	"github.com/virtflow/virtflow/api/subresources/streams/plain"
	"github.com/virtflow/virtflow/internal/inflight"
	"github.com/virtflow/virtflow/internal/streams/relay"
	"github.com/virtflow/virtflow/internal/streams/wire"
)

// portForward is the subresource whose streams take nothing from each other.
const portForward = "portforward"

// Bounds of one API server's streams. The zero value is the default.
type Bounds struct {
	// All streams, those of one user, and those to guests of one namespace.
	All, PerUser, PerNamespace int
	// Reads are questions to guests' agents at a time, apart from streams. A user, and a namespace, gets a quarter.
	Reads int
	// Ping is how often a client is pinged, Silence how long it may release that without an answer. The latter is
	// KubeVirt's.
	Ping, Silence time.Duration
	relay.Bounds
}

func (b *Bounds) fill() {
	if b.All == 0 {
		b.All = 1000
	}
	if b.PerUser == 0 {
		b.PerUser = inflight.Quarter(b.All)
	}
	if b.PerNamespace == 0 {
		b.PerNamespace = inflight.Quarter(b.All)
	}
	if b.Reads == 0 {
		b.Reads = 128
	}
	if b.Ping == 0 {
		b.Ping = 10 * time.Second
	}
	if b.Silence == 0 {
		b.Silence = time.Minute
	}
	if b.Stalled == 0 {
		b.Stalled = time.Minute
	}
	if b.Idle == 0 {
		b.Idle = 4 * time.Hour // the kubelet's for its own streams
	}
}

// Options are what the handlers need.
type Options struct {
	Log    zerolog.Logger
	Lookup subresources.Lookup
	Nodes  *Nodes
	Bounds Bounds
	// Registry gets the metrics; may be nil.
	Registry prometheus.Registerer
}

// Streams are the handlers. They are safe for concurrent use.
type Streams struct {
	Options
	open *prometheus.GaugeVec

	mu       sync.Mutex
	ended    bool
	guests   connections
	inFlight inflight.Limit // streams
	reads    inflight.Limit
	ctx      context.Context //nolint:containedctx // a stream outlives its request's deadline, but not this process
	end      context.CancelCauseFunc
	all      sync.WaitGroup
}

// New makes the handlers. Close ends their streams.
func New(o Options) *Streams {
	o.Bounds.fill()
	s := &Streams{Options: o, open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "virtflow_streams", Help: "Open streams to guests, by subresource.",
	}, []string{"subresource"}), guests: newConnections(o.Registry)}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	if o.Registry != nil {
		o.Registry.MustRegister(s.open)
	}
	return s
}

// Close says to the clients that this server ends, and returns when every stream has ended.
func (s *Streams) Close() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.end(plain.ErrClosing)
	s.all.Wait()
}

// Handlers are the API's.
func (s *Streams) Handlers() subresources.Streams {
	return subresources.Streams{
		Console: s.console, VNC: s.vnc, Screenshot: s.screenshot, USBRedir: s.usbRedir, VSOCK: s.vsock,
		PortForwardVM: s.portForwardVM, PortForwardVMI: s.portForwardVMI,
		GuestOSInfo: s.guestOSInfo, UserList: s.userList, FilesystemList: s.filesystemList,
	}
}

func (s *Streams) console(w http.ResponseWriter, r *subresources.Request) error {
	return s.bytes(w, r, "console", consoleCheck, wire.Console, nil)
}

func (s *Streams) vnc(w http.ResponseWriter, r *subresources.Request) error {
	query := url.Values{}
	if preserve, err := strconv.ParseBool(r.URL.Query().Get(wire.PreserveSession)); err == nil && preserve {
		query.Set(wire.PreserveSession, "true")
	}
	return s.bytes(w, r, "vnc", screenCheck, wire.VNC, query)
}

func (s *Streams) usbRedir(w http.ResponseWriter, r *subresources.Request) error {
	return s.bytes(w, r, "usbredir", usbCheck, wire.USBRedir, nil)
}

func (s *Streams) vsock(_ http.ResponseWriter, r *subresources.Request) error {
	return s.refuse(r, vsockCheck, "VSOCK is not supported yet.")
}

// refuse says what KubeVirt says of an instance that is not made for something, and otherwise that it is not supported.
func (s *Streams) refuse(r *subresources.Request, c check, text string) error {
	if _, err := s.instance(r.Context(), r, c); err != nil {
		return err
	}
	return subresources.NotYet(text)
}

func (s *Streams) portForwardVMI(w http.ResponseWriter, r *subresources.Request) error {
	port, protocol, err := portOf(r.Rest)
	if err != nil {
		return err
	}
	if protocol == "tcp" {
		return s.bytes(w, r, portForward, portCheck, wire.PortForward(port, protocol), nil)
	}
	return s.serve(w, r, portForward, portCheck, wire.PortForward(port, protocol), nil,
		func(c *plain.Socket, node *conn) (relay.Mover, relay.Mover) {
			return c.DatagramsIn(node), c.DatagramsOut(node)
		})
}

func (s *Streams) portForwardVM(w http.ResponseWriter, r *subresources.Request) error {
	if _, err := s.Lookup.InstanceOf(r.Context(), r.Namespace, r.Name); err != nil {
		return err
	}
	return s.portForwardVMI(w, r)
}

// portOf reads {port}[/{protocol}].
func portOf(rest []string) (port uint16, protocol string, err error) {
	protocol = "tcp"
	if len(rest) > 1 {
		protocol = rest[1]
	}
	if len(rest) == 0 || rest[0] == "" {
		return 0, "", apierrors.NewBadRequest("port must not be empty")
	}
	n, err := strconv.ParseUint(rest[0], 10, 16)
	if err != nil || n == 0 {
		return 0, "", apierrors.NewBadRequest(
			fmt.Sprintf("%.16q is not a port: it has to be a number from 1 to 65535", rest[0]))
	}
	if protocol != "tcp" && protocol != "udp" {
		return 0, "", apierrors.NewBadRequest(fmt.Sprintf("%.16q is not a protocol: it has to be tcp or udp", protocol))
	}
	return uint16(n), protocol, nil
}

// instance answers with the instance that is asked about, if it is in a state for it.
func (s *Streams) instance(
	ctx context.Context, r *subresources.Request, c check,
) (*kubevirtv1.VirtualMachineInstance, error) {
	vmi, err := s.Lookup.VMI(ctx, r.Namespace, r.Name)
	if err != nil {
		return nil, err
	}
	if err := c(vmi); err != nil {
		return nil, err
	}
	return vmi, nil
}

// bytes serves a stream of bytes.
func (s *Streams) bytes(
	w http.ResponseWriter, r *subresources.Request, kind string, c check, what string, query url.Values,
) error {
	return s.serve(w, r, kind, c, what, query, func(c *plain.Socket, node *conn) (relay.Mover, relay.Mover) {
		return c.BytesIn(node), c.BytesOut(node)
	})
}

// serve checks, reaches the guest, opens the WebSocket and relays until one side ends.
func (s *Streams) serve(w http.ResponseWriter, r *subresources.Request, kind string, c check, what string,
	query url.Values,
	movers func(*plain.Socket, *conn) (there, back relay.Mover),
) error {
	vmi, err := s.instance(r.Context(), r, c)
	if err != nil {
		return err
	}
	if err := reachable(vmi); err != nil {
		return err
	}
	done, err := s.acquire(kind, r)
	if err != nil {
		return err
	}
	defer done()
	address, err := s.Nodes.address(r.Context(), vmi.Status.NodeName)
	if err != nil {
		return err
	}
	// Reaching a console or a screen takes it from whoever has it: only for who will really have it then.
	if err := plain.Asked(r.Request); err != nil && kind != portForward {
		return apierrors.NewBadRequest(err.Error())
	}
	node, err := s.Nodes.stream(r.Context(), address, vmi, what, query)
	if err != nil {
		return err
	}
	defer node.Close()
	client, err := plain.Accept(w, r.Request, s.Bounds.Silence)
	if err != nil {
		return nil //nolint:nilerr // it was answered
	}
	log := s.Log.With().Str("namespace", r.Namespace).Str("name", r.Name).Str("user", r.User.Name).
		Str("subresource", kind).Logger()
	log.Info().Str("uid", string(vmi.UID)).Msg("stream opened")
	begun := time.Now()
	defer client.Ping(s.Bounds.Ping)()
	there, back := movers(client, node)
	err = relay.Run(s.ctx, s.Bounds.Bounds, func(why error) { node.Close(); client.End(why) }, there, back)
	if gone(err) {
		err = nil
	}
	log.Info().Err(err).Dur("took", time.Since(begun)).Msg("stream ended")
	return nil
}
