package migration

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func identity(t testing.TB, uid string, expires time.Time) *Identity {
	i, err := NewIdentity(uid, expires)
	require.NoError(t, err)
	return i
}

// TestAccepts dials a target with several identities, and checks which side accepts which.
func TestAccepts(t *testing.T) {
	noLeaks(t)
	const other = "00000000-0b5d-4c6e-8f70-112233445566"
	later, over := time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	source, target := identity(t, uid, later), identity(t, uid, later)
	with := func(change func(*tls.Config)) func(string) (net.Conn, error) {
		return func(address string) (net.Conn, error) {
			c := source.client(target.Fingerprint())
			change(c)
			return tls.Dial("tcp", address, c)
		}
	}
	as := func(i *Identity, server Fingerprint) func(string) (net.Conn, error) {
		return func(address string) (net.Conn, error) {
			return tls.Dial("tcp", address, i.client(server))
		}
	}
	expired := identity(t, uid, over)
	for name, c := range map[string]struct {
		dial   func(address string) (net.Conn, error)
		target *Identity
		client Fingerprint // that the target expects
		// accepted and dialled are the errors of the sides; "" if a side has none.
		accepted, dialled string
	}{
		"the migration's own": {dial: as(source, target.Fingerprint())},
		"another key": {dial: as(identity(t, uid, later), target.Fingerprint()), accepted: "does not match",
			dialled: "bad certificate"},
		"another key of the target": {dial: as(source, source.Fingerprint()), accepted: "bad certificate",
			dialled: "does not match the migration's fingerprint"},
		"an expired one": {dial: as(expired, target.Fingerprint()), client: expired.Fingerprint(),
			accepted: "is good from", dialled: "bad certificate"},
		"an expired target": {dial: as(source, expired.Fingerprint()), target: expired,
			accepted: "bad certificate", dialled: "is good from"},
		"another migration": {dial: as(identity(t, other, later), target.Fingerprint()),
			accepted: errUnknown.Error(), dialled: "internal error"},
		"another migration's certificate, pinned by mistake": {
			dial: with(func(c *tls.Config) {
				c.Certificates = []tls.Certificate{identity(t, other, later).certificate}
			}), accepted: "does not match the migration's fingerprint", dialled: "bad certificate"},
		"none": {dial: with(func(c *tls.Config) { c.Certificates = nil }),
			accepted: "didn't provide a certificate", dialled: "certificate required"},
		"TLS 1.2": {dial: with(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }),
			accepted: "unsupported versions", dialled: "protocol version"},
		"no name": {dial: with(func(c *tls.Config) { c.ServerName = "" }), accepted: errUnknown.Error(),
			dialled: "internal error"},
		"another protocol": {dial: with(func(c *tls.Config) { c.NextProtos = []string{"h2"} }),
			accepted: "unsupported application protocols", dialled: "no application protocol"},
		"no protocol": {dial: with(func(c *tls.Config) {
			c.NextProtos, c.VerifyConnection = nil, nil
		}), accepted: "does not support", dialled: "bad certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := target, source.Fingerprint()
			if c.target != nil {
				server = c.target
			}
			if c.client != "" {
				client = c.client
			}
			accepted, dialled := meet(t, c.dial, server.Server(client))
			for side, got := range map[string]error{c.accepted: accepted, c.dialled: dialled} {
				if side == "" {
					require.NoError(t, got)
				} else {
					require.ErrorContains(t, got, side)
				}
			}
		})
	}
}

// meet returns the errors of both sides of a connection, up to the answer.
func meet(t *testing.T, dial func(string) (net.Conn, error), server *tls.Config) (accepted, dialled error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer raw.Close()
		conn, _, err := Accept(t.Context(), raw, func(asked string) *tls.Config {
			if asked != uid {
				return nil
			}
			return server
		})
		if err == nil {
			err = Grant(conn)
		}
		done <- err
	}()
	conn, dialled := dial(l.Addr().String())
	if dialled == nil {
		defer conn.Close()
		dialled = ask(conn, Memory)
	}
	return <-done, dialled
}

// TestSlowOnes: the target waits for a source at most openTimeout for each step, and at most helloTimeout for the name
// of its migration.
func TestSlowOnes(t *testing.T) {
	for name, c := range map[string]struct {
		slow  func(source *tls.Conn)
		limit time.Duration
	}{
		"no handshake":  {func(*tls.Conn) {}, helloTimeout},
		"half a hello":  {func(source *tls.Conn) { _, _ = source.NetConn().Write([]byte{22, 3, 1}) }, helloTimeout},
		"no header":     {func(source *tls.Conn) { _ = source.Handshake() }, openTimeout},
		"half a header": {func(source *tls.Conn) { _, _ = source.Write([]byte("mem")) }, openTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				later := time.Now().Add(time.Hour)
				source, target := identity(t, uid, later), identity(t, uid, later)
				peer, conn := net.Pipe()
				defer conn.Close()
				go c.slow(tls.Client(peer, source.client(target.Fingerprint())))
				begun := time.Now()
				_, _, err := Accept(t.Context(), conn, func(string) *tls.Config {
					return target.Server(source.Fingerprint())
				})
				var late net.Error
				require.ErrorAs(t, err, &late)
				require.True(t, late.Timeout(), err.Error())
				require.Equal(t, c.limit, time.Since(begun))
			})
		})
	}
}

// TestClocksMayDiffer: a certificate is good on a node whose clock is hours behind.
func TestClocksMayDiffer(t *testing.T) {
	made := identity(t, uid, time.Now().Add(time.Hour)).certificate.Leaf
	require.WithinDuration(t, time.Now().Add(-24*time.Hour), made.NotBefore, time.Minute)
}

// TestSilentTarget: the source waits no longer than its caller.
func TestSilentTarget(t *testing.T) {
	noLeaks(t)
	i := identity(t, uid, time.Now().Add(time.Hour))
	silent, err := net.Listen("tcp", "127.0.0.1:0") // its connections wait in the kernel
	require.NoError(t, err)
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = i.Dial(ctx, Peer{Address: silent.Addr().String(), Fingerprint: i.Fingerprint()}, Memory)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	answered, ended := make(chan struct{}), make(chan error, 1)
	go func() { // shakes hands, and does not answer
		conn, err := silent.Accept() // the first has gone
		if err == nil {
			conn.Close()
			conn, err = silent.Accept()
		}
		if err == nil {
			defer conn.Close()
			_, _, err = Accept(t.Context(), conn, func(string) *tls.Config { return i.Server(i.Fingerprint()) })
		}
		ended <- err
		<-answered
	}()
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	go func() {
		require.NoError(t, <-ended)
		cancel()
	}()
	_, err = i.Dial(ctx, Peer{Address: silent.Addr().String(), Fingerprint: i.Fingerprint()}, Memory)
	require.ErrorIs(t, err, context.Canceled)
	close(answered)
}

func tcpPair(t *testing.T) (a, b net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	a, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	b, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestHeaders(t *testing.T) {
	for line, want := range map[string]string{
		"memory\n": "", "control\n": "", "disks\nbytes": "",
		"":                                      "EOF",
		"mem":                                   "unexpected EOF",
		"\n":                                    "unknown channel",
		"memory \n":                             "unknown channel",
		"Memory\n":                              "unknown channel",
		"a\x00\x1b\n":                           `"a  "`,
		strings.Repeat("m", maxHeader+1) + "\n": errLongLine.Error(),
	} {
		r := strings.NewReader(line)
		_, err := readRequest(r)
		if want == "" {
			require.NoError(t, err, line)
			require.Equal(t, len(line)-strings.Index(line, "\n")-1, r.Len(), "what follows is the channel's")
			continue
		}
		require.ErrorContains(t, err, want, line)
	}
}

// TestRefused: the target's refusal has its reason, cut to size and cleaned.
func TestRefused(t *testing.T) {
	a, b := tcpPair(t)
	go func() {
		if _, err := readRequest(b); err == nil {
			_ = Refuse(b, "no\x1b[31m\n"+strings.Repeat("long", 1000))
		}
	}()
	err := ask(a, Disks)
	var refused *RefusedError
	require.True(t, errors.As(err, &refused), "%v", err)
	require.True(t, strings.HasPrefix(refused.Message, "error: no [31m long"), refused.Message)
	require.LessOrEqual(t, len(refused.Message), maxAnswer/2)
}

func TestIdentities(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for _, bad := range []string{"", "x", strings.ToUpper(uid), uid + ".", "../" + uid, uid + "\n"} {
		_, err := NewIdentity(bad, later)
		require.ErrorContains(t, err, "is not the UID", bad)
	}
	_, err := NewIdentity(uid, time.Now().Add(50*time.Hour))
	require.ErrorContains(t, err, "would live longer")
	a, b := identity(t, uid, later), identity(t, uid, later)
	require.NotEqual(t, a.Fingerprint(), b.Fingerprint())
	require.True(t, a.Fingerprint().Valid())
	require.False(t, Fingerprint(strings.ToUpper(string(a.Fingerprint()))).Valid())
}
