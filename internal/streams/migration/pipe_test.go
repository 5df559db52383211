package migration

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

const uid = "3f2a9c1e-0b5d-4c6e-8f70-112233445566"

// line is the whole path of a stream: QEMU's socket, the source's relay, TLS, the target's relay, the other QEMU's
// socket.
type line struct {
	source, target *net.UnixConn // QEMUs' ends
	a, b           *tls.Conn     // the node workers' ends
	ended          chan error    // of both relays
}

func newLine(t testing.TB, ctx context.Context) *line {
	l := &line{ended: make(chan error, 2)}
	l.a, l.b = secured(t)
	source, inner := unixPair(t)
	l.source = source
	go func() { _, err := Pipe(ctx, inner, l.a); l.ended <- err }()
	target, outer := unixPair(t)
	l.target = target
	go func() { _, err := Pipe(ctx, l.b, outer); l.ended <- err }()
	return l
}

// secured is a connection of two node workers, up to a channel's first byte.
func secured(t testing.TB) (source, target *tls.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s, err := NewIdentity(uid, time.Now().Add(time.Hour))
	require.NoError(t, err)
	d, err := NewIdentity(uid, time.Now().Add(time.Hour))
	require.NoError(t, err)
	accepted := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			target, _, err = Accept(t.Context(), conn, func(string) *tls.Config { return d.Server(s.Fingerprint()) })
		}
		if err == nil {
			err = errors.Join(Grant(target), target.SetDeadline(time.Time{}))
		}
		accepted <- err
	}()
	source, err = s.Dial(t.Context(), Peer{Address: l.Addr().String(), Fingerprint: d.Fingerprint()}, Memory)
	require.NoError(t, <-accepted)
	require.NoError(t, err)
	return source, target
}

func unixPair(t testing.TB) (a, b *net.UnixConn) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s")})
	require.NoError(t, err)
	defer l.Close()
	a, err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	require.NoError(t, err)
	b, err = l.AcceptUnix()
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func noLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// TestPipe: what goes in comes out, in both directions at once, and each direction ends by itself.
func TestPipe(t *testing.T) {
	noLeaks(t)
	l := newLine(t, t.Context())
	there, back := make([]byte, 5<<20+7), make([]byte, 3<<20+1)
	_, _ = rand.Read(there)
	_, _ = rand.Read(back)
	go func() {
		_, _ = l.source.Write(there)
		_ = l.source.CloseWrite()
	}()
	answered := make(chan []byte, 1)
	go func() {
		got, _ := io.ReadAll(l.source)
		answered <- got
	}()
	got, err := io.ReadAll(l.target)
	require.NoError(t, err)
	require.True(t, bytes.Equal(there, got))
	_, err = l.target.Write(back) // the other direction has ended already
	require.NoError(t, err)
	require.NoError(t, l.target.Close())
	require.True(t, bytes.Equal(back, <-answered))
	require.NoError(t, <-l.ended)
	require.NoError(t, <-l.ended)
}

// TestEndWaitsForSlowTarget: a target that reads nothing for longer than TLS waits with its close_notify still gets the
// end of the stream.
func TestEndWaitsForSlowTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := identity(t, uid, time.Now().Add(time.Hour)), identity(t, uid, time.Now().Add(time.Hour))
		one, two := net.Pipe() // which holds nothing: whatever is written waits for its reader
		source := tls.Client(strict{one}, s.client(d.Fingerprint()))
		target := tls.Server(strict{two}, d.Server(s.Fingerprint()))
		ended := make(chan error, 1)
		go func() { ended <- errors.Join(source.Handshake(), source.CloseWrite()) }()
		require.NoError(t, target.Handshake())
		time.Sleep(time.Minute)
		_, err := target.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		require.NoError(t, <-ended)
		Cut(source)
	})
}

// TestCutInMiddle: both QEMUs learn of it, and a cut is not taken for the end of a stream.
func TestCutInMiddle(t *testing.T) {
	noLeaks(t)
	l := newLine(t, t.Context())
	_, err := l.source.Write([]byte("half of"))
	require.NoError(t, err)
	_, err = io.ReadFull(l.target, make([]byte, 7))
	require.NoError(t, err)
	l.a.NetConn().Close() // as when the node worker is killed
	ended := []error{<-l.ended, <-l.ended}
	require.ErrorIs(t, errors.Join(ended...), errCut)
	require.ErrorIs(t, errors.Join(ended...), net.ErrClosed)
	for _, qemu := range []net.Conn{l.source, l.target} {
		_, err := qemu.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	}
}

// TestSideThatHasGone: the other side gets an error while it writes.
func TestSideThatHasGone(t *testing.T) {
	noLeaks(t)
	l := newLine(t, t.Context())
	require.NoError(t, l.target.Close())
	p := make([]byte, 64<<10)
	require.NoError(t, l.source.SetDeadline(time.Now().Add(10*time.Second)))
	var err error
	for err == nil {
		_, err = l.source.Write(p)
	}
	require.ErrorIs(t, err, unix.EPIPE)
	require.Error(t, errors.Join(<-l.ended, <-l.ended))
}

// TestPipeEndsWithItsContext: a pipe ends with its context, even while a side reads nothing.
func TestPipeEndsWithItsContext(t *testing.T) {
	noLeaks(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	l := newLine(t, ctx)
	go func() { _, _ = io.Copy(l.source, zeros{}) }()
	_, err := io.ReadFull(l.target, make([]byte, 1<<20))
	require.NoError(t, err)
	over := errors.New("time is over")
	cancel(over)
	for range 2 {
		err := <-l.ended
		require.Error(t, err)
	}
	_, err = io.Copy(io.Discard, l.target)
	require.NoError(t, err)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestLauncherThatMakesItsSocketBlocking: a launcher that makes its socket blocking, and keeps it, cannot block the
// node worker.
func TestLauncherThatMakesItsSocketBlocking(t *testing.T) {
	noLeaks(t)
	a, b := secured(t)
	defer b.Close()
	_, inner := unixPair(t)
	kept, err := inner.File() // shares its flags
	require.NoError(t, err)
	defer kept.Close()
	require.NoError(t, unix.SetNonblock(int(kept.Fd()), false))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := Pipe(ctx, inner, a); ended <- err }()
	time.AfterFunc(100*time.Millisecond, cancel)
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for the launcher")
	}
}
