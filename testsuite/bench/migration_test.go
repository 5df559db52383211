package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/internal/streams/migration"
)

// memory is how much of a guest's memory is moved for one figure, in bytes.
const memory = 256 << 20

// network is the rate of a 1 Gbit/s network, in bytes a second.
const network = 1e9 / 8

// BenchmarkMigrationStream moves a guest's memory as a migration does: QEMU's Unix socket, the source's node worker,
// TCP over loopback, the target's node worker, the other QEMU's Unix socket. It does so with and without TLS, and over
// TCP directly, as QEMUs without node workers would. The three alternate, and all parties of each share this machine's
// cores. So a ratio of rates has the cost of all of it, and is below 1 as far as loopback is faster than a network: on
// two machines each has half of the parties, and the network has its own rate. The processor time of all parties for
// each byte does not depend on the machine's other load. The rate with TLS on a network is measured as well, with a
// target that reads at such a network's rate. It prints rows for docs/performance.md.
func BenchmarkMigrationStream(b *testing.B) {
	var secured, open, plain, limited, limitedPlain spent
	for b.Loop() {
		secured.add(b, func() time.Duration { return relayed(b, withTLS, 0) })
		open.add(b, func() time.Duration { return relayed(b, withoutTLS, 0) })
		plain.add(b, func() time.Duration { return move(b, connected(b, "tcp"), 0) })
		limited.add(b, func() time.Duration { return relayed(b, withTLS, network) })
		limitedPlain.add(b, func() time.Duration { return move(b, connected(b, "tcp"), network) })
	}
	rate := func(s spent) float64 { return float64(b.N) * memory / 1e6 / s.time.Seconds() }
	processor := func(s spent) float64 { return float64(s.processor.Microseconds()) / (float64(b.N) * memory / 1e6) }
	var rows strings.Builder
	for _, f := range []struct {
		name, words string
		s, than     spent
	}{
		{"TCP", "plain TCP", plain, plain},
		{"relay", "node workers, without TLS", open, plain},
		{"TLS", "node workers, with TLS", secured, plain},
		{"limited-TCP", "plain TCP, 1 Gbit/s", limitedPlain, limitedPlain},
		{"limited-TLS", "node workers, with TLS, 1 Gbit/s", limited, limitedPlain},
	} {
		b.ReportMetric(rate(f.s), f.name+"-MB/s")
		b.ReportMetric(processor(f.s), f.name+"-µs/MB")
		b.ReportMetric(rate(f.s)/rate(f.than), f.name+"-of-TCP")
		fmt.Fprintf(&rows, "| %s | %.0f MB/s | %.2f | %.0f µs |\n", f.words, rate(f.s), rate(f.s)/rate(f.than),
			processor(f.s))
	}
	b.ReportMetric(0, "ns/op")
	fmt.Printf("\n| stream | rate | of plain TCP | processor time for each MB |\n|---|---|---|---|\n%s", rows.String())
}

// spent has the wall-clock time and the processor time of transfers.
type spent struct{ time, processor time.Duration }

func (s *spent) add(b *testing.B, transfer func() time.Duration) {
	begun := processorTime(b)
	s.time += transfer()
	s.processor += processorTime(b) - begun
}

func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ends of a connection.
type ends struct{ a, b migration.Stream }

// relayed moves memory through two node workers with this connection.
func relayed(b *testing.B, connect func(*testing.B) ends, most float64) time.Duration {
	source, target, between := connected(b, "unix"), connected(b, "unix"), connect(b)
	ended := make(chan error, 2)
	go func() { _, err := migration.Pipe(b.Context(), source.b, between.a); ended <- err }()
	go func() { _, err := migration.Pipe(b.Context(), between.b, target.a); ended <- err }()
	took := move(b, ends{source.a, target.b}, most)
	require.NoError(b, errors.Join(<-ended, <-ended))
	return took
}

// move writes at one end and reads at the other until the end, at most at this rate in bytes a second (0: unlimited).
func move(b *testing.B, e ends, most float64) time.Duration {
	begun := time.Now()
	go func() {
		p := make([]byte, 32<<10) // QEMU's own buffer
		for done := 0; done < memory; done += len(p) {
			if _, err := e.a.Write(p); err != nil {
				return
			}
		}
		_ = e.a.CloseWrite()
	}()
	got, p := 0, make([]byte, 32<<10)
	for {
		n, err := e.b.Read(p)
		got += n
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(b, err)
		if most > 0 {
			time.Sleep(time.Until(begun.Add(time.Duration(float64(got) / most * float64(time.Second)))))
		}
	}
	took := time.Since(begun)
	require.Equal(b, memory, got)
	e.a.Close()
	e.b.Close()
	return took
}

func connected(b *testing.B, network string) ends {
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(b.TempDir(), "s")
	}
	l, err := net.Listen(network, address)
	require.NoError(b, err)
	defer l.Close()
	one, err := net.Dial(network, l.Addr().String())
	require.NoError(b, err)
	two, err := l.Accept()
	require.NoError(b, err)
	return ends{one.(migration.Stream), two.(migration.Stream)}
}

func withoutTLS(b *testing.B) ends { return connected(b, "tcp") }

func withTLS(b *testing.B) ends {
	const uid = "3f2a9c1e-0b5d-4c6e-8f70-112233445566"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	source, err := migration.NewIdentity(uid, time.Now().Add(time.Hour))
	require.NoError(b, err)
	target, err := migration.NewIdentity(uid, time.Now().Add(time.Hour))
	require.NoError(b, err)
	accepted := make(chan *tls.Conn, 1)
	go func() {
		defer close(accepted)
		raw, err := l.Accept()
		if err != nil {
			return
		}
		conn, _, err := migration.Accept(context.Background(), raw,
			func(string) *tls.Config { return target.Server(source.Fingerprint()) })
		if err == nil && migration.Grant(conn) == nil {
			_ = conn.SetDeadline(time.Time{})
			accepted <- conn
		}
	}()
	conn, err := source.Dial(b.Context(), migration.Peer{Address: l.Addr().String(), Fingerprint: target.Fingerprint()},
		migration.Memory)
	require.NoError(b, err)
	other := <-accepted
	require.NotNil(b, other)
	return ends{conn, other}
}
