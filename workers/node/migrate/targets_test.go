package migrate

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/streams/migration"
)

// streamOf is a stream's both ends, once it goes through.
func (r *rig) streamOf(t testing.TB, i *migration.Identity, c migration.Channel) (worker, qemu net.Conn) {
	conn, err := i.Dial(t.Context(), r.peer, c)
	require.NoError(t, err)
	t.Cleanup(func() { migration.Cut(conn) })
	return conn, r.receiver.accept(t, c)
}

// identified prepares a target for a source's node worker whose key the test has.
func (r *rig) identified(t testing.TB, expires time.Time, addresses ...netip.Addr) *migration.Identity {
	i, err := migration.NewIdentity(r.uid, time.Now().Add(time.Hour))
	require.NoError(t, err)
	p, err := r.targets.Prepare(Preparation{
		UID: r.uid, Source: i.Fingerprint(), Addresses: addresses, Expires: expires, Receiver: r.receiver,
	})
	require.NoError(t, err)
	r.peer = p.Peer
	return i
}

// TestPortIsOpenOnlyForTargets: nothing listens before the first is prepared, and nothing after the last has gone.
func TestPortIsOpenOnlyForTargets(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	free, err := net.Listen("tcp", ourAddress+":0")
	require.NoError(t, err)
	address := free.Addr().(*net.TCPAddr)
	free.Close()
	r.targets.Port = uint16(address.Port)
	closed := func(when string) { require.False(t, listening(t, address.String()), "the port is open "+when) }
	later := time.Now().Add(time.Hour)

	closed("before anything is prepared")
	r.prepare(t, later)
	require.Equal(t, address.String(), r.peer.Address)
	require.True(t, listening(t, address.String()))
	other := newRig(t, second)
	other.targets = r.targets
	other.prepare(t, later)
	r.targets.Remove(first)
	require.True(t, listening(t, address.String()), "another target is prepared")
	r.targets.Remove(second)
	closed("after all were removed")
	r.targets.Remove(second) // it is idempotent

	r.prepare(t, later) // a second time
	worker, qemu := r.streamOf(t, r.sessions.offers[first], migration.Memory)
	r.targets.Remove(first)
	closed("after a migration in the middle was removed")
	gone(t, worker)
	gone(t, qemu)

	r.identified(t, time.Now().Add(200*time.Millisecond))
	waitFor(t, "the port is closed when the last has expired", func() bool { return !listening(t, address.String()) })

	var away atomic.Bool
	r.targets.PodCheckInterval = time.Millisecond
	i, err := migration.NewIdentity(r.uid, later)
	require.NoError(t, err)
	_, err = r.targets.Prepare(Preparation{UID: r.uid, Source: i.Fingerprint(), Expires: later, Receiver: r.receiver,
		IsPodGone: away.Load})
	require.NoError(t, err)
	require.True(t, listening(t, address.String()))
	away.Store(true)
	waitFor(t, "the port is closed when the last one's pod is gone", func() bool {
		return !listening(t, address.String())
	})
}

// TestAcceptsOnlySourcesNodeWorker: only the source's node worker reaches a target's launcher.
func TestAcceptsOnlySourcesNodeWorker(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	ours := r.identified(t, time.Now().Add(time.Hour))
	other := newRig(t, second)
	other.targets = r.targets
	theirs := other.identified(t, time.Now().Add(time.Hour))
	expired, err := migration.NewIdentity(first, time.Now().Add(-time.Second))
	require.NoError(t, err)
	again, err := migration.NewIdentity(first, time.Now().Add(time.Hour))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		as *migration.Identity
		to migration.Peer
	}{
		"does not match the migration's fingerprint": {again, r.peer},
		"an expired one":                         {expired, r.peer},
		"of another migration, at its own":       {theirs, r.peer},
		"ours, where another target is expected": {ours, other.peer},
	} {
		_, err := c.as.Dial(t.Context(), c.to, migration.Memory)
		require.Error(t, err, name)
	}
	require.NoError(t, r.receiver.listeners[migration.Memory].SetDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = r.receiver.listeners[migration.Memory].Accept()
	require.Error(t, err, "the launcher was asked for a stream")
	_, _ = r.streamOf(t, ours, migration.Memory) // that it is possible at all
	_, _ = other.streamOf(t, theirs, migration.Memory)
}

// TestTooManyStreams: a migration has so many and no more, the control channel always comes through, and one that has
// ended makes room for another.
func TestTooManyStreams(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	i := r.identified(t, time.Now().Add(time.Hour))
	var last net.Conn
	for range migration.MaxStreams {
		last, _ = r.streamOf(t, i, migration.Memory)
	}
	_, err := i.Dial(t.Context(), r.peer, migration.Disks)
	var refused *migration.RefusedError
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, errTooMany.Error())
	control, err := i.Dial(t.Context(), r.peer, migration.Control)
	require.NoError(t, err)
	migration.Cut(control)
	migration.Cut(last)
	waitFor(t, "another stream", func() bool {
		conn, err := i.Dial(t.Context(), r.peer, migration.Disks)
		if err == nil {
			migration.Cut(conn)
		}
		return err == nil
	})
}

// TestSlowConnectionsDelayNoMigration: connections that send nothing do not keep a migration from its streams, and end
// with the port.
func TestSlowConnectionsDelayNoMigration(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	i := r.identified(t, time.Now().Add(time.Hour))
	var slow []net.Conn
	for range maxHandshakes - 1 {
		conn, err := net.Dial("tcp", r.peer.Address)
		require.NoError(t, err)
		defer conn.Close()
		slow = append(slow, conn)
	}
	_, _ = r.streamOf(t, i, migration.Memory)
	r.targets.Remove(first)
	for _, conn := range slow {
		gone(t, conn)
	}
}

// TestReportsLauncherWithoutStream: the source gets the reason.
func TestReportsLauncherWithoutStream(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	r.receiver.Migration = second
	i := r.identified(t, time.Now().Add(time.Hour))
	_, err := i.Dial(t.Context(), r.peer, migration.Memory)
	require.ErrorContains(t, err, "no such migration")
}

// TestPreparedAgain: a repeated call keeps an answer valid that was received before, and a source that has begun again
// replaces what was prepared.
func TestPreparedAgain(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	expires := time.Now().Add(time.Hour)
	before := r.prepare(t, expires)
	worker, qemu := r.streamOf(t, r.sessions.offers[first], migration.Memory)
	require.Equal(t, before, r.prepare(t, expires))
	_, err := qemu.Write([]byte("on"))
	require.NoError(t, err)
	_, err = io.ReadFull(worker, make([]byte, 2))
	require.NoError(t, err)

	i := r.identified(t, expires) // another key
	require.NotEqual(t, before.Fingerprint, r.peer.Fingerprint)
	gone(t, worker)
	gone(t, qemu)
	_, err = r.sessions.offers[first].Dial(t.Context(), r.peer, migration.Memory)
	require.Error(t, err)
	_, _ = r.streamOf(t, i, migration.Memory)
}

// TestPreparedForAnotherLauncher: what comes from then on goes to it, as when the first was reached and then lost.
func TestPreparedForAnotherLauncher(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	expires := time.Now().Add(time.Hour)
	r.prepare(t, expires)
	r.receiver = newRig(t, first).receiver
	r.prepare(t, expires)
	_, _ = r.streamOf(t, r.sessions.offers[first], migration.Memory)
	require.Equal(t, contract.ResultMoved, ended(t, r.begin(t)).Result)
	require.Len(t, r.receiver.proofs, 1)
}

// TestNewerControlChannelReplacesOlder: a source that asks for another has lost the one before.
func TestNewerControlChannelReplacesOlder(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	i := r.identified(t, time.Now().Add(time.Hour))
	before, err := i.Dial(t.Context(), r.peer, migration.Control)
	require.NoError(t, err)
	after, err := i.Dial(t.Context(), r.peer, migration.Control)
	require.NoError(t, err)
	gone(t, before)
	migration.Cut(before)
	control := migration.NewController(after)
	require.NoError(t, control.Prepare(t.Context(), nil))
	require.NoError(t, control.Withdraw(t.Context(), "no guest comes"))
	control.Close()
	waitFor(t, "the port is closed", func() bool { return !listening(t, r.peer.Address) })
}

// TestRefusesUnpreparedMigrations: a refused preparation opens no port.
func TestRefusesUnpreparedMigrations(t *testing.T) {
	noLeaks(t)
	good := func() Preparation {
		i, err := migration.NewIdentity(first, time.Now().Add(time.Hour))
		require.NoError(t, err)
		return Preparation{UID: first, Source: i.Fingerprint(), Expires: time.Now().Add(time.Hour)}
	}
	for want, spoil := range map[string]func(*Preparation){
		"no fingerprint":        func(p *Preparation) { p.Source = "sha256" },
		errExpired.Error():      func(p *Preparation) { p.Expires = time.Now() },
		"would live longer":     func(p *Preparation) { p.Expires = time.Now().Add(50 * time.Hour) },
		"not the UID":           func(p *Preparation) { p.UID = "../" + first },
		"not the name":          func(p *Preparation) { p.Files = []migration.File{{Name: "../passwd"}} },
		"4194305 bytes":         func(p *Preparation) { p.Files = []migration.File{{Name: "a", Size: 4<<20 + 1}} },
		"17 files":              func(p *Preparation) { p.Files = make([]migration.File, 17) },
		"cannot assign":         nil,
		"the system is on fire": nil,
	} {
		targets := NewTargets(TargetOptions{Log: zerolog.Nop(), Pod: netip.MustParseAddr("127.0.0.1")})
		p := good()
		switch {
		case spoil != nil:
			spoil(&p)
		case want == "cannot assign":
			targets.Pod = netip.MustParseAddr("192.0.2.1") // no host has it
		default:
			targets.Addresses = func(string) ([]netip.Prefix, error) { return nil, errors.New(want) }
		}
		_, err := targets.Prepare(p)
		require.ErrorContains(t, err, want)
		require.Nil(t, targets.listener)
		require.Empty(t, targets.byUID)
	}
}

// TestListensOnMigrationNetwork: a pod that has a network for migrations takes them there and nowhere else. The
// interface is a real one, in a network namespace of the test's own.
func TestListensOnMigrationNetwork(t *testing.T) {
	require.Zero(t, os.Geteuid(), "this test makes a network namespace: run it as root")
	noLeaks(t)
	r := newRig(t, first)
	r.targets.Pod = netip.MustParseAddr("127.0.0.1")
	i, err := migration.NewIdentity(first, time.Now().Add(time.Hour))
	require.NoError(t, err)
	p := Preparation{UID: first, Source: i.Fingerprint(), Expires: time.Now().Add(time.Hour), Receiver: r.receiver}
	inNamespace(t, func() {
		lo, err := netlink.LinkByName("lo")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(lo))
		own := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: Interface}, PeerName: "peer"}
		require.NoError(t, netlink.LinkAdd(own))
		_, err = r.targets.Prepare(p)
		require.ErrorContains(t, err, "other nodes can reach")

		address, err := netlink.ParseAddr("192.0.2.9/24")
		require.NoError(t, err)
		require.NoError(t, netlink.AddrAdd(own, address))
		require.NoError(t, netlink.LinkSetUp(own))
		got, err := r.targets.Prepare(p)
		require.NoError(t, err)
		require.Equal(t, NetworkMigration, got.Network)
		require.True(t, listening(t, got.Address))
		where := netip.MustParseAddrPort(got.Address)
		require.Equal(t, "192.0.2.9", where.Addr().String())
		require.False(t, listening(t, netip.AddrPortFrom(r.targets.Pod, where.Port()).String()))
		r.targets.Remove(first)
	})
}

// inNamespace runs f in a network namespace of its own.
func inNamespace(t *testing.T, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with this goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("making a network namespace: %v", err)
			return
		}
		f()
	}()
	<-done
}

// TestTargetsShutDown: Shutdown refuses new targets, waits for the existing ones, and cuts their streams when its
// context ends.
func TestTargetsShutDown(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	i := r.identified(t, time.Now().Add(time.Hour))
	worker, qemu := r.streamOf(t, i, migration.Memory)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		r.targets.Shutdown(ctx)
		close(over)
	}()
	waitFor(t, "nothing is prepared any more", func() bool {
		_, err := r.targets.Prepare(Preparation{
			UID: second, Source: i.Fingerprint(), Expires: time.Now().Add(time.Hour), Receiver: r.receiver,
		})
		r.targets.Remove(second)
		return errors.Is(err, ErrStopping)
	})
	_, err := worker.Write([]byte("continues"))
	require.NoError(t, err)
	_, err = io.ReadFull(qemu, make([]byte, 7))
	require.NoError(t, err)
	select {
	case <-over:
		t.Fatal("Shutdown did not wait for the target")
	default:
	}
	cancel()
	<-over
	gone(t, worker)
	gone(t, qemu)
}

// TestTargetsShutDownWithoutAny: the shutdown returns at once when there is no target, and when the last one ends.
func TestTargetsShutDownWithoutAny(t *testing.T) {
	noLeaks(t)
	NewTargets(TargetOptions{Log: zerolog.Nop()}).Shutdown(t.Context())
	r := newRig(t, first)
	r.identified(t, time.Now().Add(time.Hour))
	time.AfterFunc(50*time.Millisecond, func() { r.targets.Remove(first) })
	r.targets.Shutdown(t.Context())
}
