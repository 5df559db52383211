package streams_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/chain"
)

// TestSilentConnectionsKeepNoStreamOut: a node worker accepts a console, however many connections to it stay silent.
func TestSilentConnectionsKeepNoStreamOut(t *testing.T) {
	c := newChain(t, chain.Options{})
	for i := range 500 {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%8))}}
		conn, err := d.DialContext(t.Context(), "tcp", c.AccessAddress)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
	}
	open(t, c, "/web/vmi/console")
	(<-c.Serial).Close()
}
