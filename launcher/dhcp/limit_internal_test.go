package dhcp

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// flood is a connection on which something always lies ready.
type flood struct {
	net.PacketConn
	read int
}

func (f *flood) ReadFrom([]byte) (int, net.Addr, error) {
	f.read++
	return 0, nil, nil
}

// TestAFloodIsReadSlowly, for as long as the guest floods.
func TestAFloodIsReadSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		f := &flood{}
		l := limit(ctx, f)
		for err := error(nil); err == nil; {
			_, _, err = l.ReadFrom(nil)
		}
		require.InDelta(t, requestsAtOnce+60*requestsPerSecond, f.read, 2)
	})
}
