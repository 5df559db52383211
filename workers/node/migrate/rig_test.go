package migrate

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/streams/migration"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/launchertest"
)

const (
	first  = "3f2a9c1e-0b5d-4c6e-8f70-112233445566"
	second = "3f2a9c1e-0b5d-4c6e-8f70-665544332211"
	pod    = "00000000-0b5d-4c6e-8f70-112233445566"
)

// ourAddress is on loopback, and no other test listens there: no other process takes a port that was closed.
const ourAddress = "127.77.12.1"

var errGone = errors.New("the launcher has gone")

// launcher has the sockets of libvirt and QEMU in one pod, and hands over connections with them.
type launcher struct {
	Streams
	listeners map[migration.Channel]*net.UnixListener
}

func newLauncher(t testing.TB, uid string, side launchers.Side) launcher {
	n := launchertest.NewNode(t)
	l := launcher{listeners: map[migration.Channel]*net.UnixListener{},
		Streams: Streams{Dialer: n.Dialer(), Pod: pod, Migration: uid, Side: side}}
	dir := t.TempDir()
	for _, c := range migration.Streams() {
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, string(c))})
		require.NoError(t, err)
		t.Cleanup(func() { listener.Close() })
		l.listeners[c] = listener
	}
	launchertest.ServeStreams(t, n.AddPod(t, pod), func(r launchers.StreamRequest, to *net.UnixConn) {
		listener := l.listeners[migration.Channel(r.Channel)]
		if r.Migration != uid || r.Side != side || listener == nil {
			_ = launchertest.HandOver(to, `{"error":"no such migration"}`+"\n")
			return
		}
		var conn *net.UnixConn
		var err error
		if side == launchers.SideSource {
			conn, err = listener.AcceptUnix()
		} else {
			conn, err = net.DialUnix("unix", nil, listener.Addr().(*net.UnixAddr))
		}
		if err != nil {
			return
		}
		defer conn.Close()
		if f, err := conn.File(); err == nil {
			_ = launchertest.HandOver(to, "+", f)
			f.Close()
		}
	})
	return l
}

// source is a launcher that moves its guest as a test says.
type source struct {
	launcher
	files   []migration.Content
	migrate func(ctx context.Context, progress func(contract.MigrationProgress)) (Departure, error)
	abort   func(why string) (bool, error)
}

func (s *source) Files(context.Context) ([]migration.Content, error) { return s.files, nil }

func (s *source) Migrate(ctx context.Context, p func(contract.MigrationProgress)) (Departure, error) {
	return s.migrate(ctx, p)
}

func (s *source) Abort(_ context.Context, why string) (bool, error) { return s.abort(why) }

// dial is what libvirt or QEMU at the source do.
func (s *source) dial(t testing.TB, c migration.Channel) *net.UnixConn {
	conn, err := net.DialUnix("unix", nil, s.listeners[c].Addr().(*net.UnixAddr))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// receiver is a launcher that receives a guest.
type receiver struct {
	launcher
	prepare func([]migration.Content) error
	resume  func(migration.Proof) (contract.DomainObservation, error)

	mu        sync.Mutex
	prepared  []migration.Content
	proofs    []migration.Proof
	withdrawn []string
}

func (r *receiver) Prepare(_ context.Context, files []migration.Content) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prepared = files
	if r.prepare != nil {
		return r.prepare(files)
	}
	return nil
}

func (r *receiver) Resume(_ context.Context, p migration.Proof) (contract.DomainObservation, error) {
	r.mu.Lock()
	r.proofs = append(r.proofs, p)
	r.mu.Unlock()
	if r.resume != nil {
		return r.resume(p)
	}
	return contract.DomainObservation{PodUID: pod, State: contract.DomainRunning}, nil
}

func (r *receiver) Withdraw(_ context.Context, why string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdrawn = append(r.withdrawn, why)
	return nil
}

// accept is what libvirt or QEMU at the target do.
func (r *receiver) accept(t testing.TB, c migration.Channel) *net.UnixConn {
	l := r.listeners[c]
	require.NoError(t, l.SetDeadline(time.Now().Add(10*time.Second)))
	conn, err := l.AcceptUnix()
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// web is the instance whose guest is moved.
var web = contract.Object{Namespace: "a", Name: "web", UID: "i"}

// rig is two node workers and the launchers of one migration.
type rig struct {
	uid      string
	sessions *Sessions
	targets  *Targets
	source   *source
	receiver *receiver
	peer     migration.Peer
}

func newRig(t testing.TB, uid string) *rig {
	r := &rig{
		uid: uid, sessions: NewSessions("node1", zerolog.Nop(), nil),
		targets:  NewTargets(TargetOptions{Log: zerolog.Nop(), Pod: netip.MustParseAddr(ourAddress)}),
		source:   &source{launcher: newLauncher(t, uid, launchers.SideSource)},
		receiver: &receiver{launcher: newLauncher(t, uid, launchers.SideTarget)},
	}
	r.source.migrate = func(context.Context, func(contract.MigrationProgress)) (Departure, error) {
		return Departure{Left: &migration.Proof{By: contract.ProofLibvirt}}, nil
	}
	r.source.abort = func(string) (bool, error) { return false, errGone }
	t.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		for _, known := range r.sessions.byUID {
			known.cancel(errors.New("the test is over"))
		}
		r.sessions.Shutdown(over)
		r.targets.Shutdown(over)
	})
	return r
}

// prepare does what the workflow does before it has the guest moved.
func (r *rig) prepare(t testing.TB, expires time.Time) Prepared {
	f, err := r.sessions.Offer(r.uid, expires)
	require.NoError(t, err)
	var files []migration.File
	for _, c := range r.source.files {
		files = append(files, c.File)
	}
	p, err := r.targets.Prepare(Preparation{
		UID: r.uid, Source: f, Files: files, Expires: expires, Receiver: r.receiver,
	})
	require.NoError(t, err)
	r.peer = p.Peer
	return p
}

func (r *rig) begin(t testing.TB) *Session {
	s, err := r.sessions.Begin(r.uid, web, r.peer, r.source)
	require.NoError(t, err)
	return s
}

func ended(t testing.TB, s *Session) contract.MigrationOutcome {
	select {
	case <-s.Done():
		return s.Outcome()
	case <-time.After(20 * time.Second):
		t.Fatal("the session does not end")
	}
	panic("not reached")
}

// noLeaks fails a test that leaves goroutines or files open.
func noLeaks(t testing.TB) {
	before, files := goleak.IgnoreCurrent(), descriptors(t)
	t.Cleanup(func() {
		goleak.VerifyNone(t, before)
		require.Eventually(t, func() bool { return descriptors(t) <= files }, 5*time.Second, 10*time.Millisecond,
			"files are left open")
	})
}

func descriptors(t testing.TB) int {
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}

// listening reports whether a connection is accepted there.
func listening(t testing.TB, address string) bool {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// waitFor what a test waits for.
func waitFor(t testing.TB, what string, is func() bool) {
	require.Eventually(t, is, 10*time.Second, 5*time.Millisecond, what)
}

// gone is read at the end of a stream that was cut or has ended.
func gone(t testing.TB, conn net.Conn) {
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err := io.Copy(io.Discard, conn)
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "it did not receive the end")
}
