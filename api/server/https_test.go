package server

import (
	"bufio"
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

// patience is how long a test waits for an event that must happen.
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

// listening is a server on loopback. A client with a certificate is its front proxy.
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

// tls connects and completes the handshake.
func (l *listening) tls(from, protocol string, certificates ...tls.Certificate) (*tls.Conn, error) {
	c := tls.Client(l.tcp(from),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}, Certificates: certificates})
	return c, c.Handshake()
}

// try sends a request on a connection of its own. A refusal may come after the handshake.
func (l *listening) try(from string) error {
	c, err := l.tls(from, "http/1.1")
	if err == nil {
		_, err = ask(c)
	}
	return err
}

// closed returns how many connections were refused.
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

// ask sends a request over HTTP/1.1 on an existing connection.
func ask(c net.Conn) (string, error) {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return "", err
	}
	b := make([]byte, len("HTTP/1.1 200"))
	_, err := io.ReadFull(c, b)
	return string(b), err
}

func ok() http.Handler { return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) }

// TestSlowClientLosesItsConnection: one without a handshake, one whose header arrives byte by byte, and one that never
// ends its header.
func TestSlowClientLosesItsConnection(t *testing.T) {
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

// TestLimitsOfOneConnection covers its idle time, the size of a header, and the duration of a request.
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

// TestLimitsConnectionsOfAddress: the limit leaves connections to other addresses; connections of the front proxy do
// not count.
func TestLimitsConnectionsOfAddress(t *testing.T) {
	l := listen(t, Limits{Connections: 10, ConnectionsOthers: 3, ConnectionsEach: 2}, ok())
	opened := func(from string, certificates ...tls.Certificate) *tls.Conn {
		c, err := l.tls(from, "http/1.1", certificates...)
		require.NoError(t, err, from)
		_, err = ask(c)
		require.NoError(t, err, from)
		return c
	}
	refused := func(from string) { require.Error(t, l.try(from), from) }
	for range 15 {
		opened("127.0.0.100", l.cert)
	}
	first := opened("127.0.0.1")
	opened("127.0.0.1")
	refused("127.0.0.1")
	opened("127.0.0.2")
	refused("127.0.0.3")
	require.EqualValues(t, 2, l.closed())
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return l.try("127.0.0.3") == nil }, patience, 10*time.Millisecond)
}

// TestLimitsRequestsOfAddress: the limit holds whether the address opens one connection for each request or not.
func TestLimitsRequestsOfAddress(t *testing.T) {
	entered, leave := make(chan struct{}, 4), make(chan struct{})
	limits := Limits{Requests: 6, RequestsOthers: 3, RequestsEach: 2}
	l := listen(t, limits, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	}))
	client := func(from string, certificates ...tls.Certificate) *http.Client {
		return &http.Client{Timeout: patience, Transport: &http.Transport{
			DialContext:     (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates},
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
	for _, c := range []*http.Client{one, one, two, client("127.0.0.100", l.cert)} {
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

// TestAPIServerIsServedDespiteOthers: pods of many addresses hold all connections and requests that they may have.
func TestAPIServerIsServedDespiteOthers(t *testing.T) {
	entered := make(chan struct{}, 100)
	l := listen(t, Limits{Header: patience}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			entered <- struct{}{}
			_, _ = io.Copy(io.Discard, r.Body) // which does not come
		}
	}))
	limits := Limits{}
	limits.fill()
	// Requests without their bodies, until others have all that they may have together.
	held := 0
	for address := 10; held < limits.RequestsOthers; address++ {
		for range limits.RequestsEach {
			c, err := l.tls(fmt.Sprintf("127.0.0.%d", address), "http/1.1")
			require.NoError(t, err)
			_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
			require.NoError(t, err)
			<-entered
			held++
		}
	}
	// The same with connections without a request.
	for address := 50; held < limits.ConnectionsOthers; address++ {
		for range limits.ConnectionsEach {
			_, err := l.tls(fmt.Sprintf("127.0.0.%d", address), "http/1.1")
			require.NoError(t, err)
			if held++; held == limits.ConnectionsOthers {
				break
			}
		}
	}
	require.Error(t, l.try("127.0.0.99"), "others have all that they may have")

	proxy, err := l.tls("127.0.0.1", "http/1.1", l.cert)
	require.NoError(t, err, "the front proxy proves itself in its handshake")
	answer, err := ask(proxy)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200", answer)
	for range 10 {
		webhook, err := l.tls("127.0.0.1", "http/1.1")
		require.NoError(t, err, "from the same address API servers call webhooks, without a certificate")
		answer, err = ask(webhook)
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 200", answer)
	}
}

// TestSilentConnectionsKeepNoAPIServerOut: there are more of them, from more addresses, than may shake hands at a time.
func TestSilentConnectionsKeepNoAPIServerOut(t *testing.T) {
	limits := Limits{Connections: 10, ConnectionsOthers: 2, ConnectionsEach: 1, Handshakes: 8, Header: patience}
	l := listen(t, limits, ok())
	for i := range 5 * (limits.ConnectionsOthers + limits.Handshakes) {
		l.tcp(fmt.Sprintf("127.0.1.%d", 1+i%25))
	}
	proxy, err := l.tls("127.0.0.1", "http/1.1", l.cert)
	require.NoError(t, err)
	answers := bufio.NewReader(proxy)
	served := func() {
		_, err := io.WriteString(proxy, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		response, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode)
	}
	served()
	require.NoError(t, l.try("127.0.0.1"), "a webhook's call from the same address")
	for i := range 5 * (limits.ConnectionsOthers + limits.Handshakes) {
		l.tcp(fmt.Sprintf("127.0.1.%d", 1+i%25))
	}
	require.Eventually(t, func() bool { return l.closed() >= 80 }, patience, 10*time.Millisecond)
	served() // what has proven itself is not displaced
}

// TestCallerAtAPIServersAddressTakesHalf: behind NAT pods may share it, and another API server gets the rest.
func TestCallerAtAPIServersAddressTakesHalf(t *testing.T) {
	l := listen(t, Limits{Connections: 8, Requests: 8, Handshakes: 1}, ok())
	l.trusted.add("127.0.0.1")
	l.trusted.add("127.0.0.2")
	for range 4 {
		c, err := l.tls("127.0.0.1", "http/1.1")
		require.NoError(t, err)
		_, err = ask(c)
		require.NoError(t, err)
	}
	require.Error(t, l.try("127.0.0.1"))
	require.NoError(t, l.try("127.0.0.2"))
}

// TestMemoryOfCallersIsBounded: callers other than API servers, and callers that share the address of one, can make
// this process use memory only within its limit.
func TestMemoryOfCallersIsBounded(t *testing.T) {
	limits := Limits{}
	limits.fill()
	const handshake = 40 << 10 // what crypto/tls and net/http keep of a connection, at most
	keep := func(connections, requests, bodies int) int {
		return connections*(handshake+receiveBuffer) + requests*limits.HeaderBytes + limits.Handshakes*handshake +
			bodies
	}
	others := keep(limits.ConnectionsOthers, limits.RequestsOthers, maxBodies/othersPart)
	shared := keep(limits.Connections/trustedPart, limits.Requests/trustedPart, maxBodies/trustedPart)
	t.Logf("others can make the process keep %d MiB, and callers at one API server's address %d", others>>20,
		shared>>20)
	// deploy/base/api-server.yaml; what it has at rest
	const goMemLimit, memoryLimit, idle = 400 << 20, 512 << 20, 100 << 20
	require.Less(t, others, goMemLimit-idle)
	require.Less(t, shared, memoryLimit-idle)
}
