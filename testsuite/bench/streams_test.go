package bench

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/chain"
)

// transfer is how much is moved for one figure, in bytes.
const transfer = 64 << 20

// BenchmarkConsole moves a console's bytes from QEMU's socket through launcher, node worker and API server to a client,
// each with its own connection, two of them with TLS; and directly from the same kind of socket. All of them share this
// machine's cores.
func BenchmarkConsole(b *testing.B) {
	c := chain.New(b, chain.Options{})
	var through, direct time.Duration
	for b.Loop() {
		through += throughChain(b, c)
		direct += directly(b)
	}
	rate := func(d time.Duration) float64 { return float64(b.N) * transfer / 1e6 / d.Seconds() }
	b.ReportMetric(rate(through), "MB/s")
	b.ReportMetric(rate(direct), "direct-MB/s")
	b.ReportMetric(rate(through)/rate(direct), "of-direct")
	b.ReportMetric(0, "ns/op")
}

func throughChain(b *testing.B, c *chain.Chain) time.Duration {
	conn, _, text := c.Dial(b, "/web/vmi/console", "anna")
	require.NotNil(b, conn, text)
	defer conn.Close()
	guest := <-c.Serial
	begun := time.Now()
	go fill(guest)
	for got := 0; got < transfer; {
		_, r, err := conn.NextReader()
		require.NoError(b, err)
		n, err := io.Copy(io.Discard, r)
		require.NoError(b, err)
		got += int(n)
	}
	return time.Since(begun)
}

func directly(b *testing.B) time.Duration {
	l, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	require.NoError(b, err)
	defer l.Close()
	conn, err := net.Dial("unix", l.Addr().String())
	require.NoError(b, err)
	defer conn.Close()
	guest, err := l.Accept()
	require.NoError(b, err)
	begun := time.Now()
	go fill(guest)
	p := make([]byte, 32<<10)
	for got := 0; got < transfer; {
		n, err := conn.Read(p)
		require.NoError(b, err)
		got += n
	}
	return time.Since(begun)
}

// fill is a guest that floods its console.
func fill(guest net.Conn) {
	defer guest.Close()
	p := make([]byte, 32<<10)
	for done := 0; done < transfer; done += len(p) {
		if _, err := guest.Write(p); err != nil {
			return
		}
	}
}

// BenchmarkFirstByte measures the time from a client's request to the first byte of a console, including connections
// and TLS handshakes.
func BenchmarkFirstByte(b *testing.B) {
	c := chain.New(b, chain.Options{})
	for b.Loop() {
		conn, _, text := c.Dial(b, "/web/vmi/console", "anna")
		require.NotNil(b, conn, text)
		guest := <-c.Serial
		_, err := guest.Write([]byte("x"))
		require.NoError(b, err)
		kind, _, err := conn.ReadMessage()
		require.NoError(b, err)
		require.Equal(b, websocket.BinaryMessage, kind)
		conn.Close()
		guest.Close()
	}
}
