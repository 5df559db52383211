package dhcp

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// flood is a connection that always has a message to read.
type flood struct {
	net.PacketConn
	read int
}

func (f *flood) ReadFrom([]byte) (int, net.Addr, error) {
	f.read++
	return 0, nil, nil
}

// TestLimitsFlood: the limit holds as long as the guest floods.
func TestLimitsFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		f := &flood{}
		l := limitRate(ctx, f)
		for err := error(nil); err == nil; {
			_, _, err = l.ReadFrom(nil)
		}
		require.InDelta(t, requestsAtOnce+60*requestsPerSecond, f.read, 2)
	})
}
