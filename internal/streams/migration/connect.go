package migration

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

const (
	// openTimeout is the time that a side has for everything before a channel's first byte.
	openTimeout = 10 * time.Second
	// helloTimeout is the time that the source has to name its migration. On a link that loses packets, that is three
	// transmissions of the ClientHello: the kernel repeats it after 1 s and after 3 s (RFC 6298). Silent connections
	// of others need no shorter time: they have a quota of their own (workers/node/migrate).
	helloTimeout = 5 * time.Second
	// A node that has gone is detected after 30 s even if no data is on its way to it.
	keepAliveIdle, keepAliveInterval, keepAliveCount = 10 * time.Second, 5 * time.Second, 4
)

// Peer is the address and the identity of the target.
type Peer struct {
	Address     string // host:port
	Fingerprint Fingerprint
	// From is the address of this node from which it is dialed; invalid: any.
	From netip.Addr
}

// Dial opens a channel to the target. It returns a RefusedError if the target's node worker refuses.
func (i *Identity) Dial(ctx context.Context, target Peer, c Channel) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	dialer := net.Dialer{KeepAliveConfig: keepAlive()}
	if target.From.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(target.From, 0))
	}
	raw, err := dialer.DialContext(ctx, "tcp", target.Address)
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

// errCut means that a connection has ended without the end of its stream.
var errCut = errors.New("the connection was cut")

// strict corrects how crypto/tls treats the end of a stream.
//
// crypto/tls takes the end of a connection between two records for the end of the stream, although the other side has
// not sent one. Here that is errCut. And it limits the sending of its own end of a stream to 5 s, which is too short on
// a slow link with much data still in transit. Here the end has no limit, like any byte.
type strict struct{ net.Conn }

func (s strict) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		err = errCut
	}
	return n, err
}

func (strict) SetWriteDeadline(time.Time) error { return nil }

func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount}
}

// errUnknown is returned to a source whose migration has no prepared target.
var errUnknown = errors.New("no target is prepared for that migration")

// Accept does the target's part of Dial up to the answer, which the caller gives: Grant or Refuse. find returns
// Identity.Server's result for a migration's UID; nil if there is no such migration. The deadline that Accept sets
// stays until the caller removes it. It closes conn only when ctx ends.
func Accept(ctx context.Context, conn net.Conn, find func(uid string) *tls.Config) (*tls.Conn, Channel, error) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(keepAlive()) // without it, a node that has gone is detected later
	}
	begun := time.Now()
	_ = conn.SetDeadline(begun.Add(helloTimeout))
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
				_ = conn.SetDeadline(begun.Add(openTimeout))
				return c, nil
			}
			return nil, errUnknown
		},
	})
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, "", fmt.Errorf("TLS handshake: %w", err)
	}
	c, err := readRequest(secure)
	if err != nil {
		return nil, "", fmt.Errorf("reading the requested channel: %w", err)
	}
	return secure, c, nil
}
