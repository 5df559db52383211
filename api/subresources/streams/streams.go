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

// portForward is the subresource whose streams do not end each other.
const portForward = "portforward"

// Bounds has the limits of one API server's streams. The zero value is the default.
type Bounds struct {
	// MaxStreams is the limit of all streams, MaxPerUser that of one user's, and MaxPerNamespace that of streams to the
	// guests of one namespace; 0 for the latter two means a quarter of what is free.
	MaxStreams, MaxPerUser, MaxPerNamespace int
	// MaxReads limits the concurrent requests to guests' agents, apart from streams. A user, and a namespace, gets a
	// quarter of what is free.
	MaxReads int
	// PingInterval is the time between two pings to a client. A client that does not answer within PongTimeout, which
	// is KubeVirt's, is disconnected.
	PingInterval, PongTimeout time.Duration
	relay.Bounds
}

// setDefaults replaces each limit that is 0 by its default, except MaxPerUser and MaxPerNamespace.
func (b *Bounds) setDefaults() {
	if b.MaxStreams == 0 {
		b.MaxStreams = 1000
	}
	if b.MaxReads == 0 {
		b.MaxReads = 128
	}
	if b.PingInterval == 0 {
		b.PingInterval = 10 * time.Second
	}
	if b.PongTimeout == 0 {
		b.PongTimeout = time.Minute
	}
	if b.StallTimeout == 0 {
		b.StallTimeout = time.Minute
	}
	if b.IdleTimeout == 0 {
		b.IdleTimeout = 4 * time.Hour // the kubelet's limit for its own streams
	}
}

// Options has the handlers' dependencies.
type Options struct {
	Log    zerolog.Logger
	Lookup subresources.Lookup
	Nodes  *Nodes
	Bounds Bounds
	// Origins are the hosts whose pages may open streams from a browser; nil: DefaultOrigins. "*" is any.
	Origins []string
	// Registry registers the metrics; it may be nil.
	Registry prometheus.Registerer
}

// Streams has the handlers. They are safe for concurrent use.
type Streams struct {
	Options
	open *prometheus.GaugeVec

	mu       sync.Mutex
	ended    bool
	guests   connections
	inFlight inflight.Limit // streams
	reads    inflight.Limit
	ctx      context.Context // a stream outlives its request's deadline, but not this process
	end      context.CancelCauseFunc
	all      sync.WaitGroup
}

// New returns the handlers. Close ends their streams.
func New(o Options) *Streams {
	o.Bounds.setDefaults()
	if o.Origins == nil {
		o.Origins = DefaultOrigins()
	}
	s := &Streams{Options: o, open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "virtflow_streams", Help: "Open streams to guests, by subresource.",
	}, []string{"subresource"}), guests: newConnections(o.Registry)}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	if o.Registry != nil {
		o.Registry.MustRegister(s.open)
	}
	return s
}

// Close notifies the clients that this server shuts down, and returns when every stream has ended.
func (s *Streams) Close() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.end(plain.ErrClosing)
	s.all.Wait()
}

// Handlers returns the API's handlers.
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

// refuse returns KubeVirt's error for an instance that is not configured for a feature, and otherwise that it is not
// supported.
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

// portOf parses {port}[/{protocol}].
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
			fmt.Sprintf("%.16q is not a port: it must be a number from 1 to 65535", rest[0]))
	}
	if protocol != "tcp" && protocol != "udp" {
		return 0, "", apierrors.NewBadRequest(fmt.Sprintf("%.16q is not a protocol: it must be tcp or udp", protocol))
	}
	return uint16(n), protocol, nil
}

// instance returns the instance of the request, if it is in a state for it.
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

// serve checks the request, reaches the guest, opens the WebSocket and relays until one side ends.
func (s *Streams) serve(w http.ResponseWriter, r *subresources.Request, kind string, c check, what string,
	query url.Values,
	movers func(*plain.Socket, *conn) (there, back relay.Mover),
) error {
	if err := checkOrigin(r.Request, s.Origins); err != nil {
		return err
	}
	vmi, err := s.instance(r.Context(), r, c)
	if err != nil {
		return err
	}
	if err := checkReachable(vmi); err != nil {
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
	// A connection to a console or a screen ends the older session, so the request must be one that Accept accepts.
	if err := plain.Asked(r.Request); err != nil && kind != portForward {
		return apierrors.NewBadRequest(err.Error())
	}
	node, err := s.Nodes.stream(r.Context(), address, vmi, what, query)
	if err != nil {
		return err
	}
	defer node.Close()
	client, err := plain.Accept(w, r.Request, s.Bounds.PongTimeout)
	if err != nil {
		return nil
	}
	log := s.Log.With().Str("namespace", r.Namespace).Str("name", r.Name).Str("user", r.User.Name).
		Str("subresource", kind).Logger()
	log.Info().Str("uid", string(vmi.UID)).Msg("opened stream")
	begun := time.Now()
	defer client.Ping(s.Bounds.PingInterval)()
	there, back := movers(client, node)
	err = relay.Run(s.ctx, s.Bounds.Bounds, func(why error) {
		node.Close()
		if why == nil && kind != portForward {
			// As in KubeVirt: from the missing close message virtctl concludes that the guest has ended, or that
			// another user has taken the session.
			client.Drop()
			return
		}
		client.End(why)
	}, there, back)
	if isClosed(err) {
		err = nil
	}
	log.Info().Err(err).Dur("took", time.Since(begun)).Msg("ended stream")
	return nil
}
