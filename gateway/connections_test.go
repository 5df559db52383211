package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/contract"
)

// withheld is a message of a gRPC call whose last byte does not come before the call ends.
type withheld struct {
	*bytes.Reader
	sent *atomic.Int64
	ctx  context.Context // ends with the call
	end  context.CancelFunc
}

func (w *withheld) Close() error {
	w.end()
	return nil
}

func (w *withheld) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.sent.Add(int64(n))
	if err == io.EOF {
		<-w.ctx.Done()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// withhold makes calls on one connection whose messages it withholds, and returns when each has been answered, or ctx
// has ended. It returns their gRPC codes, "" where there was no answer.
func (r *rig) withhold(ctx context.Context, token string, calls int, sent *atomic.Int64) []string {
	//nolint:staticcheck // net/http's own opens further connections
	transport := &http2.Transport{TLSClientConfig: r.tls(), StrictMaxConcurrentStreams: true}
	defer transport.CloseIdleConnections() //nolint:staticcheck // as above
	answers := make([]string, calls)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			open, end := context.WithCancel(ctx)
			defer end()
			message := make([]byte, 5+maxRequest-1)
			binary.BigEndian.PutUint32(message[1:], maxRequest)
			request, err := http.NewRequestWithContext(ctx, http.MethodPost,
				"https://"+r.address+"/temporal.api.workflowservice.v1.WorkflowService/SignalWorkflowExecution",
				&withheld{bytes.NewReader(message), sent, open, end})
			if err != nil {
				return
			}
			request.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"},
				"Authorization": {"Bearer " + token}}
			response, err := transport.RoundTrip(request) //nolint:staticcheck // as above
			if err != nil {
				return
			}
			defer response.Body.Close()
			_, _ = io.Copy(io.Discard, response.Body)
			answers[i] = response.Header.Get("Grpc-Status") + response.Trailer.Get("Grpc-Status")
		})
	}
	all.Wait()
	return answers
}

// TestBuffersNoMessageOfUnauthenticatedCallers: clients that send all but the last byte are answered without it, and
// next to nothing of what they have sent was taken.
func TestBuffersNoMessageOfUnauthenticatedCallers(t *testing.T) {
	const clients = 16
	r := newRig(t)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var sent atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			token := jwt(t, account, []string{audience}, time.Now().Add(time.Hour), 1000+i)
			for _, code := range r.withhold(ctx, token, maxStreams, &sent) {
				if code != "16" && code != "8" { // Unauthenticated, or too many tokens
					t.Errorf("answered with the code %q", code)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d calls on %d connections: %d KiB were sent", clients*maxStreams, clients, sent.Load()>>10)
	require.Less(t, sent.Load(), int64(clients*maxStreams*window))
}

// TestReadsLittleOfUnauthenticatedConnection: while the API server does not answer about its token, none of the
// connection's other calls is read. The connection is closed when its time is over.
func TestReadsLittleOfUnauthenticatedConnection(t *testing.T) {
	reviewed := make(chan struct{})
	r := newRig(t, func(r *rig) { r.life, r.reviewing = 300*time.Millisecond, reviewed })
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var sent atomic.Int64
	token := r.node("node1")
	answered := make(chan []string)
	go func() { answered <- r.withhold(ctx, token, maxStreams, &sent) }()
	require.Eventually(t, func() bool {
		return r.counter("virtflow_gateway_connections_closed_total", closedUnauthenticated) == 1
	}, deadline, tick)
	close(reviewed)
	require.Equal(t, strings.Repeat(" ", maxStreams-1), strings.Join(<-answered, " "), "a call was answered")
	const buffered = 16 << 10 // of each call, by its client
	require.LessOrEqual(t, sent.Load(), int64(maxStreams*buffered+window))
}

// TestRefusesMessageThatDoesNotArrive: one that does not is refused, counted, and makes room for another.
func TestRefusesMessageThatDoesNotArrive(t *testing.T) {
	r := newRig(t)
	r.gateway.messageTimeout = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	for range 2 {
		for _, code := range r.withhold(ctx, r.node("node1"), maxStreams, new(atomic.Int64)) {
			require.Equal(t, fmt.Sprint(int(codes.DeadlineExceeded)), code)
		}
	}
	require.EqualValues(t, 2*maxStreams, r.refusals("SignalWorkflowExecution", ReasonSlow))
	require.Eventually(t, func() bool { return ask(t, r.as(r.node("node1"))) == nil }, deadline, tick)
}

// silent opens connections that say nothing.
func (r *rig) silent(n int) {
	for range n {
		c, err := net.Dial("tcp", r.address)
		require.NoError(r.t, err)
		r.t.Cleanup(func() { c.Close() })
	}
}

// TestManyNodesBehindOneAddress: many nodes behind one address connect and stay connected, beside a client at the same
// address that holds as many silent connections as are permitted, and opens more.
func TestManyNodesBehindOneAddress(t *testing.T) {
	const nodes = 40
	r := newRig(t)
	r.silent(2 * unauthenticatedPerAddress)
	held := make(chan struct{})
	r.frontend.hold(held)
	ended := make(chan error, nodes)
	for i := range nodes {
		node := fmt.Sprintf("node-%d", i)
		c := r.as(r.node(node))
		require.NoError(t, ask(t, c))
		go func() {
			_, err := c.PollActivityTaskQueue(t.Context(), pollOf(contract.NodeTaskQueue(node)))
			ended <- err
		}()
		r.silent(10)
	}
	require.Eventually(t, func() bool { return len(r.frontend.got()) == 2*nodes }, deadline, tick)
	r.silent(2 * unauthenticatedPerAddress)
	require.NoError(t, ask(t, r.as(r.node("one-more"))))
	close(held)
	for range nodes {
		require.NoError(t, <-ended, "a node's connection was closed")
	}
	require.Positive(t, r.counter("virtflow_gateway_connections_closed_total", closedCrowded))
	require.Zero(t, r.counter("virtflow_gateway_connections_closed_total", closedOfNode))
}

// TestLimitsConnectionsOfOneNode: the connections of one node are bounded, wherever they come from; when one ends,
// another can be opened.
func TestLimitsConnectionsOfOneNode(t *testing.T) {
	r := newRig(t)
	token := r.node("node1")
	var last func()
	for range connectionsPerNode {
		c := r.dial(token)
		last = func() { c.Close() }
		require.NoError(t, ask(t, workflowservice.NewWorkflowServiceClient(c)))
	}
	more := r.as(token)
	require.Equal(t, codes.ResourceExhausted, status.Code(ask(t, more)))
	require.EqualValues(t, 1, r.counter("virtflow_gateway_connections_closed_total", closedOfNode))
	require.NoError(t, ask(t, r.as(r.node("node2"))))
	last()
	require.Eventually(t, func() bool { return ask(t, more) == nil }, deadline, tick)
}

// TestClosesIdleUnauthenticatedConnection: such a connection is closed after its time, also in the middle of its
// handshake, and no authenticated one is.
func TestClosesIdleUnauthenticatedConnection(t *testing.T) {
	r := newRig(t, func(r *rig) { r.life = 300 * time.Millisecond })
	authenticated := r.as(r.node("node1"))
	require.NoError(t, ask(t, authenticated))
	shaken, err := tls.Dial("tcp", r.address, func() *tls.Config {
		c := r.tls()
		c.NextProtos = []string{"h2"}
		return c
	}())
	require.NoError(t, err)
	silent, err := net.Dial("tcp", r.address)
	require.NoError(t, err)
	for _, c := range []net.Conn{shaken, silent} {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(deadline)))
		_, err := io.Copy(io.Discard, c)
		var late net.Error
		require.False(t, errors.As(err, &late) && late.Timeout(), "it was not closed")
		c.Close()
	}
	require.EqualValues(t, 2, r.counter("virtflow_gateway_connections_closed_total", closedUnauthenticated))
	require.NoError(t, ask(t, authenticated))
	require.Equal(t, 1, r.reviews)
}

// from is a connection from an address.
type from struct {
	net.Conn
	address string
}

func (f from) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(f.address), 1))
}

// TestClosesOldestUnauthenticatedConnection: of its address where that has as many unauthenticated connections as it
// may have, else of the address that has most: one that opens many does not displace others'.
func TestClosesOldestUnauthenticatedConnection(t *testing.T) {
	l := newConnections(nil, time.Hour, newCounters(nil).closed)
	of := func(address string) *connection { return &connection{all: l, Conn: from{address: address}} }
	first := of("10.0.0.1")
	require.Nil(t, l.add(first))
	var same []*connection
	for range unauthenticatedPerAddress {
		same = append(same, of("10.0.0.2"))
		require.Nil(t, l.add(same[len(same)-1]))
	}
	require.Same(t, same[0], l.add(of("10.0.0.2")))
	require.NoError(t, same[1].authenticate("node1"))
	require.Nil(t, l.add(of("10.0.0.2")), "an authenticated one counts")
	require.True(t, same[2].close())
	require.False(t, same[2].close())
	require.Nil(t, l.add(of("10.0.0.2")), "a closed one counts")
	for i := range maxUnauthenticated - unauthenticatedPerAddress - 1 {
		require.Nil(t, l.add(of(fmt.Sprintf("10.1.0.%d", i))))
	}
	require.Same(t, same[3], l.add(of("10.0.0.3")), "one of an address that has fewer was closed")
	require.True(t, first.close(), "it was closed")
}

// TestMemoryStaysBelowTheLimit: the sum of what unauthenticated callers, honest nodes and hostile nodes can make the
// gateway hold is below the pod's memory limit.
func TestMemoryStaysBelowTheLimit(t *testing.T) {
	const (
		kib, mib = 1 << 10, 1 << 20
		limit    = 512 * mib // of deploy/base/node-gateway.yaml
		// Buffers of TLS and HTTP/2, goroutines, and headers that are being read.
		user = 128*kib + maxHeaders
		base = 64 * mib // the process, and 10,000 launcher pods
		// Two polls with their headers in Temporal's direction, too.
		honest, perHonest = 1000, 128 * kib
		hostile           = 8
		// All streams with a full window, and polls whose requests are being read.
		perHostile = connectionsPerNode*(user+2*socketBuffer+maxStreams*window) + pollsAtOnce*maxRequest
	)
	unauthenticated := maxUnauthenticated * (user + 2*socketBuffer)
	calls := maxCallsOpen * maxRequest // of hostile nodes: each has a request of the largest size in hand
	sum := base + unauthenticated + honest*perHonest + calls + hostile*perHostile
	t.Logf("process %d, unauthenticated connections %d, %d nodes %d, calls %d, %d hostile nodes %d: %d of %d MiB",
		base/mib, unauthenticated/mib, honest, honest*perHonest/mib, calls/mib, hostile, hostile*perHostile/mib,
		sum/mib, limit/mib)
	require.Less(t, sum, limit)
	require.Contains(t, string(readFile(t, "../deploy/base/node-gateway.yaml")), "memory: 512Mi")
}
