package migrate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/internal/streams/migration"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

const (
	// maxHandshakes is how many connections may be on their way to a channel at a time; those of migrations that are
	// under way do not count.
	maxHandshakes = 64
	// acceptBackoff is how long nobody is accepted when the system has refused to.
	acceptBackoff = 100 * time.Millisecond
)

// ErrStopping says that the node worker is about to end, and begins nothing.
var ErrStopping = errors.New("the node worker is about to end") //nolint:gochecknoglobals // a constant error

var (
	errRemoved  = errors.New("the target is not prepared any more")     //nolint:gochecknoglobals // a constant error
	errReplaced = errors.New("the target was prepared anew")            //nolint:gochecknoglobals // a constant error
	errExpired  = errors.New("the time of the migration is over")       //nolint:gochecknoglobals // a constant error
	errPodGone  = errors.New("the target's pod is gone")                //nolint:gochecknoglobals // a constant error
	errFinished = errors.New("the migration is finished on this side")  //nolint:gochecknoglobals // a constant error
	errTakeOver = errors.New("the source has another control channel")  //nolint:gochecknoglobals // a constant error
	errTooMany  = errors.New("the migration has too many streams open") //nolint:gochecknoglobals // a constant error
)

// TargetOptions are what Targets need.
type TargetOptions struct {
	Log zerolog.Logger
	// Pod is the address of the node worker's pod.
	Pod netip.Addr
	// Port to listen on; 0: any that is free.
	Port uint16
	// Addresses are those of a network interface, nil where there is none; as the system says unless it is set.
	Addresses func(name string) ([]netip.Prefix, error)
	// Registry gets the metrics; it may be nil.
	Registry prometheus.Registerer
	// LookInterval is how often it is looked whether a target's pod is gone; 0: every 10 s.
	LookInterval time.Duration
}

// Targets are the migrations that this node is prepared to receive. The port is open exactly while there are any.
// Targets is safe for concurrent use.
type Targets struct {
	TargetOptions
	traffic traffic

	mu       sync.Mutex
	byUID    map[string]*target
	door     *door // nil: nothing listens
	stopping bool
	emptied  chan struct{}  // closed when stopping and the last target has gone
	work     sync.WaitGroup // everything that runs
}

// door is an open port.
type door struct {
	listener net.Listener
	network  Network
	cancel   context.CancelFunc // cuts those who have not said yet what they want
}

// NewTargets has none.
func NewTargets(o TargetOptions) *Targets {
	if o.Addresses == nil {
		o.Addresses = interfaceAddresses
	}
	if o.LookInterval == 0 {
		o.LookInterval = 10 * time.Second
	}
	t := &Targets{TargetOptions: o, traffic: newTraffic(o.Registry, launchers.SideTarget),
		byUID: map[string]*target{}, emptied: make(chan struct{})}
	newGauge(o.Registry, launchers.SideTarget, t.prepared)
	return t
}

// prepared counts them.
func (t *Targets) prepared() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byUID)
}

// Receiver is the launcher that receives a guest.
type Receiver interface {
	migration.Target
	Launcher
}

// Preparation is a migration to be received.
type Preparation struct {
	UID string
	// Source is the fingerprint of the source's node worker.
	Source migration.Fingerprint
	// Files are those that it will send.
	Files []migration.File
	// Expires is when nobody is waited for any more, and every stream is cut.
	Expires  time.Time
	Receiver Receiver
	// Gone says that the launcher's pod is gone. A migration whose source is lost may end with the pod, without a word
	// to this node. nil: that is not known.
	Gone func() bool
}

// Validate refuses what no other try can help.
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

// Prepared is where and by what the source's node worker finds the target.
type Prepared struct {
	migration.Peer
	Network Network
}

// Prepare lets a migration in. Asked again for the same migration and source it gives the same answer: whoever asked
// before may have told the source already. With another fingerprint of the source it replaces what was prepared.
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
		return t.answer(known), nil
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
	if p.Gone != nil {
		t.work.Go(func() { t.removeWithPod(added) })
	}
	return t.answer(added), nil
}

// removeWithPod removes a target when its pod is gone.
func (t *Targets) removeWithPod(of *target) {
	look := time.NewTicker(t.LookInterval)
	defer look.Stop()
	for {
		select {
		case <-of.ctx.Done():
			return
		case <-look.C:
			if of.Gone() {
				t.remove(of, errPodGone)
				return
			}
		}
	}
}

// answer needs the lock.
func (t *Targets) answer(of *target) Prepared {
	return Prepared{Network: t.door.network, Peer: migration.Peer{
		Address: t.door.listener.Addr().String(), Fingerprint: of.identity.Fingerprint(),
	}}
}

// Remove ends what was prepared for a migration: its streams are cut. It returns when nothing of them is left, and does
// nothing if the migration is not known.
func (t *Targets) Remove(uid string) {
	t.mu.Lock()
	known := t.byUID[uid]
	t.mu.Unlock()
	if known != nil {
		t.remove(known, errRemoved)
		known.work.Wait()
	}
}

// remove closes the port with the last one.
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

// open needs the lock.
func (t *Targets) open() error {
	if t.door != nil {
		return nil
	}
	own, err := t.Addresses(migrationInterface)
	if err != nil {
		return err
	}
	address, network, err := choose(own, t.Pod)
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
	t.door = &door{listener: l, network: network, cancel: cancel}
	t.Log.Info().Str("address", l.Addr().String()).Str("network", string(network)).
		Msg("taking streams of migrations")
	t.work.Go(func() { t.serve(ctx, l) })
	return nil
}

// close needs the lock.
func (t *Targets) close() {
	if t.door == nil {
		return
	}
	t.door.listener.Close()
	t.door.cancel()
	t.door = nil
	t.Log.Info().Msg("taking no streams of migrations any more")
}

func (t *Targets) serve(ctx context.Context, l net.Listener) {
	handshakes := make(chan struct{}, maxHandshakes)
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // files are used up, for example
			t.Log.Error().Err(err).Msg("accepting a stream of a migration")
			select {
			case <-ctx.Done():
			case <-time.After(acceptBackoff):
			}
			continue
		}
		handshakes <- struct{}{} // each takes a bounded time
		t.work.Go(func() { t.take(ctx, conn, func() { <-handshakes }) })
	}
}

// take serves one connection; known is called when it is no longer anybody's.
func (t *Targets) take(ctx context.Context, conn net.Conn, known func()) {
	var of *target
	secure, channel, err := accept(ctx, conn, func(uid string) *target {
		t.mu.Lock()
		defer t.mu.Unlock()
		of = t.byUID[uid]
		return of
	})
	known()
	if err != nil {
		// Somebody else's mistake, or somebody else.
		t.Log.Debug().Err(err).Str("from", conn.RemoteAddr().String()).Msg("refused a stream of a migration")
		conn.Close()
		return
	}
	if of.serve(secure, channel) {
		t.remove(of, errFinished)
	}
}
