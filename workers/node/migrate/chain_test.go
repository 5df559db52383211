package migrate

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/streams/migration"
)

// TestChain moves two guests at a time from one node to another: files on the control channel, then bytes in both
// directions of each channel, from the source's Unix sockets through launcher, node worker, TLS, node worker and
// launcher to the target's. In the end both run at the target, and nothing listens.
func TestChain(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	other := newRig(t, second)
	other.sessions, other.targets = r.sessions, r.targets
	var address string
	var sessions []*Session
	for i, one := range []*rig{r, other} {
		one.source.files = []migration.Content{
			migration.NewContent("cloudinit.iso", random(t, 200<<10+i)), migration.NewContent("empty", nil),
		}
		one.source.migrate = func(_ context.Context, progress func(contract.MigrationProgress)) (Departure, error) {
			progress(contract.MigrationProgress{UID: one.uid, Iteration: 1})
			var all sync.WaitGroup
			for _, c := range append(migration.Streams(), migration.Memory) {
				from := one.source.dial(t, c)
				to := one.receiver.accept(t, c)
				all.Go(func() { swap(t, from, to) })
			}
			all.Wait()
			return Departure{Left: &migration.Proof{By: contract.ProofProcess}, StoppedAt: time.Now(),
				Stats: contract.MigrationStats{Bytes: 1}, Mode: "PreCopy"}, nil
		}
		address = one.prepare(t, time.Now().Add(time.Hour)).Address
		sessions = append(sessions, one.begin(t))
	}
	for i, one := range []*rig{r, other} {
		outcome := ended(t, sessions[i])
		require.Equal(t, contract.ResultMoved, outcome.Result, outcome.Reason)
		require.Equal(t, contract.DomainRunning, outcome.Target.State)
		require.Equal(t, "PreCopy", outcome.Mode)
		require.Equal(t, int64(len(migration.Streams())+1)*sentByEach, outcome.Stats.Bytes)
		require.Equal(t, 1, sessions[i].Progress().Iteration)
		require.Equal(t, []migration.Proof{{By: contract.ProofProcess}}, one.receiver.proofs)
		require.Empty(t, one.receiver.withdrawn)
		require.Len(t, one.receiver.prepared, 2)
		for j, f := range one.source.files {
			require.True(t, bytes.Equal(f.Data, one.receiver.prepared[j].Data), f.Name)
		}
	}
	waitFor(t, "the port is closed with the last", func() bool { return !listening(t, address) })
}

// sentByEach is how many bytes go to the target through each stream.
const sentByEach = 3<<20 + 1

// swap sends different bytes in both directions of a stream at once, and compares what arrives.
func swap(t testing.TB, a, b *net.UnixConn) {
	there, back := random(t, sentByEach), random(t, 1<<20+3)
	var both sync.WaitGroup
	for _, way := range []struct {
		from, to *net.UnixConn
		data     []byte
	}{{a, b, there}, {b, a, back}} {
		both.Go(func() {
			_, err := way.from.Write(way.data)
			if err = errors.Join(err, way.from.CloseWrite()); err != nil {
				t.Errorf("sending: %v", err)
			}
		})
		both.Go(func() {
			got, err := io.ReadAll(way.to)
			if err != nil || !bytes.Equal(way.data, got) {
				t.Errorf("other bytes arrive: %d of %d, %v", len(got), len(way.data), err)
			}
		})
	}
	both.Wait()
	a.Close()
	b.Close()
}

func random(t testing.TB, n int) []byte {
	p := make([]byte, n)
	_, err := rand.Read(p)
	require.NoError(t, err)
	return p
}
