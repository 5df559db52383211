package migration

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

const (
	// openTimeout is how long a side may take for everything before a channel's first byte.
	openTimeout = 10 * time.Second
	// A node that has gone is noticed after 30 s where nothing is on its way to it.
	keepAliveIdle, keepAliveInterval, keepAliveCount = 10 * time.Second, 5 * time.Second, 4
)

// Peer is where and who the target is.
type Peer struct {
	Address     string // host:port
	Fingerprint Fingerprint
}

// Dial opens a channel to the target. It fails with a RefusedError if the target's node worker says why it refuses.
func (i *Identity) Dial(ctx context.Context, target Peer, c Channel) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	raw, err := (&net.Dialer{KeepAliveConfig: keepAlive()}).DialContext(ctx, "tcp", target.Address)
	if err != nil {
		return nil, fmt.Errorf("dialing the target's node worker: %w", err)
	}
	conn := tls.Client(strict{raw}, i.client(target.Fingerprint))
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	if err = conn.HandshakeContext(ctx); err == nil {
		err = ask(conn, c)
	}
	if !stop() {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("opening the channel %s: %w", c, err)
	}
	return conn, nil
}

// errCut says that a connection has ended without the end of its stream.
var errCut = errors.New("the connection was cut") //nolint:gochecknoglobals // a constant error

// strict is what TLS speaks through: crypto/tls by itself is too lenient, and too hasty, with how a stream ends.
//
// It takes the end of a connection between two records for the end of the stream, though the other side has not said
// so. Here that is errCut. And it gives its own end of a stream 5 s to be sent, which is too short on a slow link with
// much still on its way. Here the end takes its time, like any byte.
type strict struct{ net.Conn }

func (s strict) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		err = errCut
	}
	return n, err //nolint:wrapcheck // what the connection says
}

func (strict) SetWriteDeadline(time.Time) error { return nil }

func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount}
}

// errUnknown is for whoever asks for a migration that no target is prepared for.
var errUnknown = errors.New("no target is prepared for that migration") //nolint:gochecknoglobals // a constant error

// Accept does the target's part of Dial up to the answer, which is the caller's to give: Grant or Refuse. find says by
// a migration's UID what Identity.Server has made; nil: there is no such migration. The deadline that Accept sets
// stays until the caller removes it. It closes conn only when ctx ends.
func Accept(ctx context.Context, conn net.Conn, find func(uid string) *tls.Config) (*tls.Conn, Channel, error) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(keepAlive()) // without it, a node that has gone is noticed later
	}
	_ = conn.SetDeadline(time.Now().Add(openTimeout))
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	secure := tls.Server(strict{conn}, &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			uid, ours := strings.CutSuffix(hello.ServerName, domain)
			if !ours || !ValidUID(uid) {
				return nil, errUnknown
			}
			if c := find(uid); c != nil {
				return c, nil
			}
			return nil, errUnknown
		},
	})
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, "", fmt.Errorf("the handshake: %w", err)
	}
	c, err := asked(secure)
	if err != nil {
		return nil, "", fmt.Errorf("asking for a channel: %w", err)
	}
	return secure, c, nil
}
