package access

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/net/netutil"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/inflight"
	"github.com/virtflow/virtflow/internal/streams/relay"
	"github.com/virtflow/virtflow/internal/streams/wire"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

const (
	// headerTimeout is how long a client may take for its handshake, and for a request's headers.
	headerTimeout = 10 * time.Second
	// idleConnection is how long a connection without a request stays.
	idleConnection = time.Minute
	// largestHeader of a request, in bytes.
	largestHeader = 16 << 10
	// spareConnections may ask for something that is no stream, or be in their handshake, while all streams are taken.
	// Of those in their handshake, half may be of one address.
	spareConnections = 64
	// kindDetails is the kind of request that is answered at once, from what an agent reports.
	kindDetails = "guest"
)

// Bounds limits what is done at a time. The zero value is the default.
type Bounds struct {
	// MaxStreams is the limit of this node, MaxPerNamespace that of one namespace's VMIs (0: a quarter of what is
	// free), MaxPerGuest that of one VMI.
	MaxStreams, MaxPerNamespace, MaxPerGuest int
	// MaxReads limits the concurrent requests to guests' agents, apart from streams. A namespace gets a quarter of what
	// is free, a VMI an eighth of all.
	MaxReads int
	// The time limits of each stream. It may be idle for as long as the kubelet permits for its own streams.
	relay.Bounds
}

// setDefaults replaces each limit that is 0 by its default, except MaxPerNamespace.
func (b *Bounds) setDefaults() {
	if b.MaxStreams == 0 {
		b.MaxStreams = 256
	}
	if b.MaxPerGuest == 0 {
		b.MaxPerGuest = 32
	}
	if b.MaxReads == 0 {
		b.MaxReads = 64
	}
	if b.StallTimeout == 0 {
		b.StallTimeout = time.Minute
	}
	if b.IdleTimeout == 0 {
		b.IdleTimeout = 4 * time.Hour
	}
}

// Options configures a Server.
type Options struct {
	Log zerolog.Logger
	// Credentials is the directory with tls.crt, tls.key and ca.crt. They may come later, and change.
	Credentials string
	// Owner returns the VMI whose launcher a pod has.
	Owner func(pod string) (contract.Object, bool)
	// Connect connects to the launcher of a pod.
	Connect func(ctx context.Context, pod string) (Launcher, error)
	Bounds  Bounds
	// Registry gets the metrics; may be nil.
	Registry prometheus.Registerer
}

// Launcher is a connection to a launcher.
type Launcher interface {
	Attach(ctx context.Context, device rpc.Device, preserve bool) (*launchers.Attached, error)
	Screenshot(ctx context.Context, moveCursor bool, to io.Writer) error
	GuestDetails(ctx context.Context) (*rpc.GuestDetailsResponse, error)
	DialGuest(ctx context.Context, network string, port uint16) (net.Conn, error)
	Close()
}

// Server is the access server. It is safe for concurrent use.
type Server struct {
	Options
	open     *prometheus.GaugeVec
	requests *prometheus.CounterVec

	mu       sync.Mutex
	inFlight inflight.Limit // streams
	reads    inflight.Limit
	// ctx is the context of Serve; streams end with it.
	ctx     context.Context // streams outlive their requests' contexts, but not the server
	streams sync.WaitGroup
}

// New returns a server; Serve starts it.
func New(o Options) *Server {
	o.Bounds.setDefaults()
	s := &Server{Options: o, ctx: context.Background(),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "virtflow_node_streams", Help: "Open streams to guests of this node, by kind.",
		}, []string{"kind"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtflow_node_access_requests_total",
			Help: "What the API server asked of guests of this node, by kind and by the code of the answer.",
		}, []string{"kind", "code"}),
	}
	if o.Registry != nil {
		o.Registry.MustRegister(s.open, s.requests)
	}
	return s
}

// Listen serves on a TCP address until ctx ends. It returns when no stream is left.
func (s *Server) Listen(ctx context.Context, address string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serving access to guests: %w", err)
	}
	return s.Serve(ctx, l)
}

// Serve is Listen with a listener, which it closes.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.ctx = ctx
	secrets := &credentials{dir: s.Credentials}
	server := &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleConnection, MaxHeaderBytes: largestHeader,
		// Debug only: a handshake that fails is a fault of the other end, which any host may be.
		ErrorLog:  stdlog.New(debugLog{s.Log}, "", 0),
		Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	handshakes := &inflight.Handshakes{Max: spareConnections, Each: spareConnections / 2}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			handshakes.Admit(c)
		} else { // it has shown its certificate and asked for something, or is closed
			handshakes.End(c)
		}
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	limited := netutil.LimitListener(l, s.Bounds.MaxStreams+s.Bounds.MaxReads+spareConnections)
	err := server.Serve(tls.NewListener(limited,
		&tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: secrets.get}))
	cancel()
	s.mu.Lock()   // waits for requests that are taking a stream; no other gets one
	s.mu.Unlock() //nolint:staticcheck // see above
	s.streams.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving access to guests: %w", err)
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]handler{
		wire.PatternConsole: {"console", s.console}, wire.PatternVNC: {"vnc", s.vnc},
		wire.PatternScreenshot: {"screenshot", s.screenshot}, wire.PatternUSBRedir: {"usbredir", s.usbRedir},
		wire.PatternPortForward: {"portforward", s.portForward}, wire.PatternDetails: {kindDetails, s.details},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, h) })
	}
	return mux
}

// handler does one kind of request, of a launcher that is reached already.
type handler struct {
	kind string
	do   func(w http.ResponseWriter, r *http.Request, l Launcher) error
}

// answer answers a request, counts it and logs it.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, h handler) {
	begun := time.Now()
	vmi, pod := r.PathValue("vmi"), r.PathValue("pod")
	err := s.serveGuest(w, r, h, vmi, pod)
	code := http.StatusOK
	if err != nil {
		var f *failure
		if !errors.As(err, &f) {
			f = &failure{http.StatusInternalServerError, err.Error()}
		}
		if code = f.code; code == codeAnswered {
			code = http.StatusOK
		} else {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, f.text)
		}
	}
	s.requests.WithLabelValues(h.kind, fmt.Sprint(code)).Inc()
	s.Log.Info().Str("kind", h.kind).Str("uid", clip(vmi)).Str("pod_uid", clip(pod)).Dur("took", time.Since(begun)).
		Int("code", code).Err(err).Msg("served access to a guest")
}

// serveGuest answers a request, if the guest is on this node and no limit is reached.
func (s *Server) serveGuest(w http.ResponseWriter, r *http.Request, h handler, vmi, pod string) error {
	owner, known := s.Owner(pod)
	if !known || vmi == "" || owner.UID != vmi {
		return &failure{http.StatusNotFound, "that guest is not on this node"}
	}
	done, err := s.acquire(h.kind, owner)
	if err != nil {
		return err
	}
	defer done()
	l, err := s.Connect(r.Context(), pod)
	if err != nil {
		return &failure{http.StatusBadGateway, "the guest's launcher cannot be reached: " + err.Error()}
	}
	defer l.Close()
	return h.do(w, r, l)
}

// acquire counts a request until done is called.
func (s *Server) acquire(kind string, vmi contract.Object) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, &failure{http.StatusServiceUnavailable, "the node worker is about to end"}
	}
	namespace, guest := inflight.Quota{Owner: "namespace " + vmi.Namespace}, inflight.Quota{Owner: "guest " + vmi.UID}
	var release func()
	if kind == kindDetails {
		guest.Max = max(1, s.Bounds.MaxReads/8)
		release, err = s.reads.Acquire(s.Bounds.MaxReads, namespace, guest)
	} else {
		namespace.Max, guest.Max = s.Bounds.MaxPerNamespace, s.Bounds.MaxPerGuest
		release, err = s.inFlight.Acquire(s.Bounds.MaxStreams, namespace, guest)
	}
	if err != nil {
		return nil, exceeded(err, namespace)
	}
	s.streams.Add(1)
	open := s.open.WithLabelValues(kind)
	open.Inc()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		release()
		open.Dec()
		s.streams.Done()
	}, nil
}

// exceeded returns the error for the user: which limit is reached.
func exceeded(err error, namespace inflight.Quota) error {
	var f *inflight.ExceededError
	switch {
	case !errors.As(err, &f):
		return err
	case f.Owner == "":
		return &failure{http.StatusServiceUnavailable,
			fmt.Sprintf("this node has %d open streams to guests, and takes no more", f.InFlight)}
	case f.Owner == namespace.Owner:
		return &failure{http.StatusTooManyRequests,
			fmt.Sprintf("there are %d open streams to guests of this namespace on this node, and no more are taken",
				f.InFlight)}
	}
	return &failure{http.StatusTooManyRequests,
		fmt.Sprintf("there are %d open streams to this guest, and no more are taken", f.InFlight)}
}

// codeAnswered marks a failure of something that had been answered before.
const codeAnswered = 0

// failure is an answer with a code and a text for the user.
type failure struct {
	code int
	text string
}

func (f *failure) Error() string { return f.text }

// clip returns as much of s as a log needs.
func clip(s string) string { return s[:min(len(s), 64)] }

// debugLog takes the lines of Go's own logger.
type debugLog struct{ log zerolog.Logger }

func (d debugLog) Write(p []byte) (int, error) {
	d.log.Debug().Msg(string(p))
	return len(p), nil
}
