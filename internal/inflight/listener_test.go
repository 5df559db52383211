package inflight_test

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/internal/inflight"
)

const deadline = 10 * time.Second

// TestLimitsConnectionsOfAddress: an address at its limit gets another connection when one of its connections ends.
func TestLimitsConnectionsOfAddress(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var refusals atomic.Int32
	l := &inflight.Listener{Listener: inner, Max: 100, Refused: func() { refusals.Add(1) },
		Quotas: func(host string) []inflight.Quota { return []inflight.Quota{{Owner: host, Max: 2}} }}
	accepted := make(chan net.Conn, 10)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	dial()
	first := <-accepted
	second := <-accepted
	refused := dial()
	require.NoError(t, refused.SetReadDeadline(time.Now().Add(deadline)))
	_, err = refused.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "it was not closed")
	require.Empty(t, accepted)
	require.NoError(t, first.Close())
	_ = first.Close() // releases nothing more
	dial()
	third := <-accepted
	refused = dial()
	require.NoError(t, refused.SetReadDeadline(time.Now().Add(deadline)))
	_, err = refused.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "closing twice released two")
	require.EqualValues(t, 2, refusals.Load())
	require.NoError(t, l.Close())
	second.Close()
	third.Close()
}
