package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// listening is a server on loopback. Whoever shows a certificate is its front proxy.
type listening struct {
	*Server
	t       *testing.T
	address string
	cert    tls.Certificate
}

func listen(t *testing.T, limits Limits, h http.Handler) *listening {
	t.Helper()
	cert := selfSigned(t)
	s := newServer("", 0, limits, h, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil },
		func(state *tls.ConnectionState) bool { return len(state.PeerCertificates) > 0 }, zerolog.Nop())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return &listening{Server: s, t: t, address: l.Addr().String(), cert: cert}
}

// tcp connects from an address of loopback.
func (l *listening) tcp(from string) net.Conn {
	l.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	c, err := d.Dial("tcp", l.address)
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = c.Close() })
	require.NoError(l.t, c.SetDeadline(time.Now().Add(patience)))
	return c
}

// tls connects and shakes hands.
func (l *listening) tls(from, protocol string, certificates ...tls.Certificate) (*tls.Conn, error) {
	c := tls.Client(l.tcp(from), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}, Certificates: certificates}) //nolint:gosec // a test's own
	return c, c.Handshake()
}

// closed is how many connections were too many.
func (l *listening) closed() float64 {
	registry := prometheus.NewRegistry()
	registry.MustRegister(l.refused)
	families, err := registry.Gather()
	require.NoError(l.t, err)
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == "connection" {
			return m.GetCounter().GetValue()
		}
	}
	return 0
}

// ask sends a request over HTTP/1.1 on a connection that is there.
func ask(c net.Conn) (string, error) {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return "", err
	}
	b := make([]byte, len("HTTP/1.1 200"))
	_, err := io.ReadFull(c, b)
	return string(b), err
}

func ok() http.Handler { return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) }

// TestASlowClientLosesItsConnection: one that does not shake hands, one whose header comes letter by letter, and one
// that never ends it.
func TestASlowClientLosesItsConnection(t *testing.T) {
	const short = 100 * time.Millisecond
	l := listen(t, Limits{Header: short, Idle: short}, ok())
	shaken := func(protocol, first string, then byte) net.Conn {
		c, err := l.tls("127.0.0.1", protocol)
		require.NoError(t, err)
		_, err = io.WriteString(c, first)
		require.NoError(t, err)
		go func() {
			tick := time.NewTicker(short / 5)
			defer tick.Stop()
			for range tick.C {
				if _, err := c.Write([]byte{then}); err != nil {
					return
				}
			}
		}()
		return c
	}
	var h2 bytes.Buffer
	h2.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&h2, nil)
	require.NoError(t, f.WriteSettings())
	// not its end
	require.NoError(t, f.WriteHeaders(
		http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}, EndStream: true}))
	// 16 KiB of it are to come
	h2.Write([]byte{0, 0x40, 0, byte(http2.FrameContinuation), 0, 0, 0, 0, 1})
	for name, c := range map[string]net.Conn{
		"no handshake": l.tcp("127.0.0.1"),
		"HTTP/1.1":     shaken("http/1.1", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", 'a'),
		"HTTP/2":       shaken("h2", h2.String(), 0),
	} {
		_, err := io.Copy(io.Discard, c)
		var late net.Error
		require.False(t, errors.As(err, &late) && late.Timeout(), "%s: the server ends it: %v", name, err)
	}
	c, err := l.tls("127.0.0.1", "http/1.1")
	require.NoError(t, err)
	answer, err := ask(c)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200", answer, "others are served")
}

// TestLimitsOfOneConnection: how long it may be idle, how large a header may be, and how long a request may take.
func TestLimitsOfOneConnection(t *testing.T) {
	const short = 100 * time.Millisecond
	reading := make(chan error, 1)
	l := listen(t, Limits{Idle: short, Request: short, HeaderBytes: 4 << 10},
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				_, err := io.Copy(io.Discard, r.Body)
				reading <- err
			}
		}))
	c, err := l.tls("127.0.0.1", "http/1.1")
	require.NoError(t, err)
	_, err = ask(c)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, c)
	require.NoError(t, err, "an idle connection is closed")

	c, err = l.tls("127.0.0.1", "http/1.1")
	require.NoError(t, err)
	_, err = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Large: %s\r\n\r\n", strings.Repeat("a", 10<<10))
	require.NoError(t, err)
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Contains(t, string(answer), "431")

	c, err = l.tls("127.0.0.1", "http/1.1")
	require.NoError(t, err)
	_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\na")
	require.NoError(t, err)
	require.Error(t, <-reading, "a body that does not come")
}

// TestConnectionsOfAnAddress are limited, so that others have theirs; and those of the front proxy do not count.
func TestConnectionsOfAnAddress(t *testing.T) {
	l := listen(t, Limits{Connections: 3, ConnectionsEach: 2}, ok())
	opened := func(from string, certificates ...tls.Certificate) *tls.Conn {
		c, err := l.tls(from, "http/1.1", certificates...)
		require.NoError(t, err, from)
		_, err = ask(c)
		require.NoError(t, err, from)
		return c
	}
	refused := func(from string) {
		_, err := l.tls(from, "http/1.1")
		require.Error(t, err, from)
	}
	for range 5 {
		opened("127.0.0.1", l.cert)
	}
	first := opened("127.0.0.1")
	opened("127.0.0.1")
	refused("127.0.0.1")
	opened("127.0.0.2")
	refused("127.0.0.3")
	require.EqualValues(t, 2, l.closed())
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool {
		_, err := l.tls("127.0.0.3", "http/1.1")
		return err == nil
	}, patience, 10*time.Millisecond)
}

// TestRequestsOfAnAddress are limited, whether it opens a connection for each or not.
func TestRequestsOfAnAddress(t *testing.T) {
	entered, leave := make(chan struct{}, 4), make(chan struct{})
	l := listen(t, Limits{Requests: 3, RequestsEach: 2}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	}))
	client := func(from string, certificates ...tls.Certificate) *http.Client {
		return &http.Client{Timeout: patience, Transport: &http.Transport{
			DialContext:     (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}, //nolint:gosec // a test's own
		}}
	}
	get := func(c *http.Client) int {
		resp, err := c.Get("https://" + l.address)
		if err != nil {
			t.Error(err)
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	var all sync.WaitGroup
	one, two := client("127.0.0.1"), client("127.0.0.2")
	for _, c := range []*http.Client{one, one, two, client("127.0.0.1", l.cert)} {
		all.Go(func() { require.Equal(t, http.StatusOK, get(c)) })
	}
	for range cap(entered) {
		<-entered
	}
	require.Equal(t, http.StatusTooManyRequests, get(one), "its own quota is used up")
	require.Equal(t, http.StatusTooManyRequests, get(client("127.0.0.3")), "all are")
	close(leave)
	all.Wait()
	require.Equal(t, http.StatusOK, get(one))
}
