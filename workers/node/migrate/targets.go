package migrate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/internal/inflight"
	"github.com/virtflow/virtflow/internal/streams/migration"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

const (
	// maxHandshakes is how many connections may be in their handshake at a time, half of them from addresses of
	// expected sources, and eachHandshakes how many from one other address. Those of migrations under way do not count.
	maxHandshakes, eachHandshakes = 64, 8
	// acceptBackoff is the back-off after the system has failed to accept a connection.
	acceptBackoff = 100 * time.Millisecond
)

// ErrStopping is the error of a node worker that is about to end, and begins nothing.
var ErrStopping = errors.New("the node worker is about to end")

var (
	errRemoved  = errors.New("the target is not prepared any more")
	errReplaced = errors.New("the target was prepared again")
	errExpired  = errors.New("the time of the migration is over")
	errPodGone  = errors.New("the target's pod is gone")
	errFinished = errors.New("the migration is finished on this side")
	errTakeOver = errors.New("the source has another control channel")
	errTooMany  = errors.New("the migration has too many streams open")
)

// TargetOptions configures Targets.
type TargetOptions struct {
	Log zerolog.Logger
	// Node is the name of this node.
	Node string
	// Pod is the address of the node worker's pod.
	Pod netip.Addr
	// Network is the NetworkAttachmentDefinition, as namespace/name, that the pod requests as migration0; "": none.
	Network string
	// Port is the port to listen on; 0: any free one.
	Port uint16
	// Addresses returns the addresses of a network interface, nil if there is none; by default those of the system.
	Addresses func(name string) ([]netip.Prefix, error)
	// Registry gets the metrics; it may be nil.
	Registry prometheus.Registerer
	// PodCheckInterval is the time between checks whether a target's pod is gone; 0: 10 s.
	PodCheckInterval time.Duration
}

// Targets has the migrations that this node is prepared to receive. The port is open exactly while there are any.
// Targets is safe for concurrent use.
type Targets struct {
	TargetOptions
	traffic traffic

	mu       sync.Mutex
	byUID    map[string]*target
	listener *listener // nil: nothing listens
	stopping bool
	emptied  chan struct{}  // closed when stopping and the last target has gone
	work     sync.WaitGroup // everything that runs
}

// listener is an open port.
type listener struct {
	listener net.Listener
	network  Network
	cancel   context.CancelFunc // cuts connections without a channel yet
}

// NewTargets returns empty Targets.
func NewTargets(o TargetOptions) *Targets {
	if o.Addresses == nil {
		o.Addresses = interfaceAddresses
	}
	if o.PodCheckInterval == 0 {
		o.PodCheckInterval = 10 * time.Second
	}
	t := &Targets{TargetOptions: o, traffic: newTraffic(o.Registry, launchers.SideTarget),
		byUID: map[string]*target{}, emptied: make(chan struct{})}
	newGauge(o.Registry, launchers.SideTarget, t.preparedCount)
	return t
}

// preparedCount returns the number of prepared targets.
func (t *Targets) preparedCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byUID)
}

// Receiver is the launcher that receives a guest.
type Receiver interface {
	migration.Target
	Launcher
}

// Preparation describes a migration to be received.
type Preparation struct {
	UID string
	// Source is the fingerprint of the source's node worker.
	Source migration.Fingerprint
	// Addresses are those that the source dials from, as far as it knows.
	Addresses []netip.Addr
	// Files are those that the source will send.
	Files []migration.File
	// Expires is when the target stops waiting and cuts every stream.
	Expires  time.Time
	Receiver Receiver
	// IsPodGone reports whether the launcher's pod is gone. A migration whose source is lost may end with the pod,
	// without any message to this node. nil: unknown.
	IsPodGone func() bool
}

// Validate returns an error that no retry can help.
func (p Preparation) Validate() error {
	switch {
	case !migration.ValidUID(p.UID):
		return fmt.Errorf("%.64q is not the UID of a migration", p.UID)
	case !p.Source.Valid():
		return errors.New("the source has no fingerprint")
	case !p.Expires.After(time.Now()):
		return errExpired
	}
	return migration.CheckFiles(p.Files)
}

// Prepared is the address and the key by which the source's node worker reaches the target.
type Prepared struct {
	migration.Peer
	Network Network
}

// Prepare prepares to receive a migration. For the same migration and source it returns the same answer: an earlier
// caller may have passed it to the source already. With another fingerprint of the source it replaces what was
// prepared.
func (t *Targets) Prepare(p Preparation) (Prepared, error) {
	if err := p.Validate(); err != nil {
		return Prepared{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping {
		return Prepared{}, ErrStopping
	}
	known := t.byUID[p.UID]
	if known != nil && known.Source == p.Source {
		known.renew(p)
		return t.describe(known), nil
	}
	identity, err := migration.NewIdentity(p.UID, p.Expires)
	if err != nil {
		return Prepared{}, err
	}
	if err := t.open(); err != nil {
		return Prepared{}, err
	}
	if known != nil {
		known.end(errReplaced)
	}
	added := newTarget(t.Log, p, identity)
	added.traffic = t.traffic
	added.expiry = time.AfterFunc(time.Until(p.Expires), func() { t.remove(added, errExpired) })
	t.byUID[p.UID] = added
	if p.IsPodGone != nil {
		t.work.Go(func() { t.removeWithPod(added) })
	}
	return t.describe(added), nil
}

// removeWithPod removes a target when its pod is gone.
func (t *Targets) removeWithPod(of *target) {
	look := time.NewTicker(t.PodCheckInterval)
	defer look.Stop()
	for {
		select {
		case <-of.ctx.Done():
			return
		case <-look.C:
			if of.IsPodGone() {
				t.remove(of, errPodGone)
				return
			}
		}
	}
}

// describe returns the answer for a target; the caller holds the lock.
func (t *Targets) describe(of *target) Prepared {
	return Prepared{Network: t.listener.network, Peer: migration.Peer{
		Address: t.listener.listener.Addr().String(), Fingerprint: of.identity.Fingerprint(),
	}}
}

// Remove ends what was prepared for a migration and cuts its streams. It returns when nothing of them is left, and does
// nothing for an unknown migration.
func (t *Targets) Remove(uid string) {
	t.mu.Lock()
	known := t.byUID[uid]
	t.mu.Unlock()
	if known != nil {
		t.remove(known, errRemoved)
		known.work.Wait()
	}
}

// remove removes a target, and closes the port with the last one.
func (t *Targets) remove(gone *target, why error) {
	gone.end(why)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byUID[gone.UID] != gone {
		return // replaced, or removed before
	}
	delete(t.byUID, gone.UID)
	if len(t.byUID) > 0 {
		return
	}
	t.close()
	if t.stopping {
		close(t.emptied)
	}
}

// Shutdown prepares nothing any more and returns when what was prepared has ended; when ctx ends, it cuts the rest.
func (t *Targets) Shutdown(ctx context.Context) {
	t.mu.Lock()
	if !t.stopping {
		t.stopping = true
		if len(t.byUID) == 0 {
			close(t.emptied)
		}
	}
	t.mu.Unlock()
	select {
	case <-t.emptied:
	case <-ctx.Done():
		t.mu.Lock()
		var rest []string
		for uid := range t.byUID {
			rest = append(rest, uid)
		}
		t.mu.Unlock()
		for _, uid := range rest {
			t.Remove(uid)
		}
	}
	t.work.Wait()
}

// open opens the port; the caller holds the lock.
func (t *Targets) open() error {
	if t.listener != nil {
		return nil
	}
	own, err := t.Addresses(Interface)
	if err != nil {
		return err
	}
	address, network, err := chooseAddress(own, t.Pod)
	if err != nil {
		return err
	}
	where := net.JoinHostPort(address.String(), strconv.Itoa(int(t.Port)))
	ctx, cancel := context.WithCancel(context.Background())
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", where)
	if err != nil {
		cancel()
		return fmt.Errorf("taking streams of migrations: %w", err)
	}
	t.listener = &listener{listener: l, network: network, cancel: cancel}
	t.Log.Info().Str("address", l.Addr().String()).Str("network", string(network)).
		Msg("accepting streams of migrations")
	t.work.Go(func() { t.serve(ctx, l) })
	return nil
}

// close closes the port; the caller holds the lock.
func (t *Targets) close() {
	if t.listener == nil {
		return
	}
	t.listener.listener.Close()
	t.listener.cancel()
	t.listener = nil
	t.Log.Info().Msg("stopped accepting streams of migrations")
}

func (t *Targets) serve(ctx context.Context, l net.Listener) {
	handshakes := &inflight.Handshakes{Max: maxHandshakes, Each: eachHandshakes, Expected: t.isExpected}
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no more file descriptors, for example
			t.Log.Error().Err(err).Msg("failed to accept a stream of a migration")
			select {
			case <-ctx.Done():
			case <-time.After(acceptBackoff):
			}
			continue
		}
		handshakes.Admit(conn)
		t.work.Go(func() { t.serveConn(ctx, conn, func() { handshakes.End(conn) }) })
	}
}

// isExpected reports whether a source that may come dials from an address.
func (t *Targets) isExpected(address netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, known := range t.byUID {
		if slices.Contains(known.Addresses, address) {
			return true
		}
	}
	return false
}

// serveConn serves one connection; known is called when the handshake has ended.
func (t *Targets) serveConn(ctx context.Context, conn net.Conn, known func()) {
	var of *target
	secure, channel, err := accept(ctx, conn, func(uid string) *target {
		t.mu.Lock()
		defer t.mu.Unlock()
		of = t.byUID[uid]
		return of
	})
	known()
	if err != nil {
		// Debug only: the peer is at fault, and any host can connect to this port.
		t.Log.Debug().Err(err).Str("from", conn.RemoteAddr().String()).Msg("refused a stream of a migration")
		conn.Close()
		return
	}
	if of.serve(secure, channel) {
		t.remove(of, errFinished)
	}
}
