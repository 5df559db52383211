package migrate

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/internal/streams/migration"
)

// sayNothing opens silent connections, one from each of so many addresses of loopback. Each is closed with the test.
func (r *rig) sayNothing(t testing.TB, connections int) {
	for i := range connections {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(i/250), byte(2+i%250))}}
		conn, err := d.DialContext(t.Context(), "tcp", r.peer.Address)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
	}
}

// TestSilentConnectionsKeepNoMigrationOut: a stream passes within the time that a source waits, however many addresses
// have connected before without a word, and whether or not the target expects the source's address.
func TestSilentConnectionsKeepNoMigrationOut(t *testing.T) {
	for name, expected := range map[string][]netip.Addr{
		"the source's address is expected": {netip.MustParseAddr("127.0.0.1")},
		"it is not known":                  nil,
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			r := newRig(t, first)
			i := r.identified(t, time.Now().Add(time.Hour), expected...)
			r.sayNothing(t, 200)
			for c := range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), answerLimit)
				conn, err := i.Dial(ctx, r.peer, migration.Memory)
				cancel()
				require.NoError(t, err, fmt.Sprintf("stream %d", c))
				migration.Cut(conn)
				r.receiver.accept(t, migration.Memory)
				r.sayNothing(t, 100)
			}
		})
	}
}
