//go:build libvirt

package realtest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirt"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// movesEnv names the variable with the number of moves of each guest for the figures; without it the test is skipped.
const movesEnv = "VIRTFLOW_BENCH_MOVES"

// took has the duration of one move, and how long its guest stood still.
type took struct{ total, downtime time.Duration }

// TestMovesBesideLibvirt: node workers move guests, and then libvirt alone moves guests between launchers of the same
// kind: the source's libvirtd connects to the target's by its socket, and both QEMUs by TCP over loopback, without TLS.
// Each gets a guest of its own that has just booted, with the same writer in it, because a guest that was moved before
// has less to copy. In both cases the times at which it stops and resumes come from the events of both libvirtds. The
// test asserts nothing about times, and prints rows for docs/performance.md.
func TestMovesBesideLibvirt(t *testing.T) {
	times, err := strconv.Atoi(os.Getenv(movesEnv))
	if err != nil {
		t.Skipf("%s does not say how many moves to measure", movesEnv)
	}
	require.NoError(t, libvirt.EventRegisterDefaultImpl())
	go func() {
		for libvirt.EventRunDefaultImpl() == nil && t.Context().Err() == nil {
		}
	}()
	var rows strings.Builder
	for _, guest := range []struct {
		name   string
		writes int // MiB a second, at most
	}{{"idle", 0}, {"writes 8 MiB/s", 8}} {
		var ours, libvirts []took
		moved := func(by func(t *testing.T, from, to *pod) took) took {
			from := newTwin(t)
			from.boot()
			from.agentUp()
			from.writes(guest.writes)
			to := newTwin(t)
			defer to.vanish()
			defer from.vanish()
			return by(t, from, to)
		}
		for range times {
			ours = append(ours, moved(byNodeWorkers))
			libvirts = append(libvirts, moved(byLibvirt))
		}
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", guest.name,
			row(ours, libvirts, func(x took) time.Duration { return x.downtime }),
			row(ours, libvirts, func(x took) time.Duration { return x.total }))
	}
	suite.PrintFigures(t, "moves of a guest of 128 MiB, medians of %d:\n"+
		"| guest | downtime | libvirt alone | ratio | total | libvirt alone | ratio |\n"+
		"|---|---|---|---|---|---|---|\n%s", times, rows.String())
}

// row has the medians of both, and their ratio.
func row(ours, libvirts []took, of func(took) time.Duration) string {
	median := func(list []took) time.Duration {
		list = slices.SortedFunc(slices.Values(list), func(a, b took) int { return int(of(a) - of(b)) })
		return of(list[len(list)/2])
	}
	a, b := median(ours), median(libvirts)
	return fmt.Sprintf("%d ms | %d ms | %.2f", a.Milliseconds(), b.Milliseconds(), float64(a)/float64(b))
}

// writes has the guest change its memory endlessly, up to so many MiB a second.
func (p *pod) writes(each int) {
	p.t.Helper()
	if each == 0 {
		return
	}
	p.run(fmt.Sprintf(`dd if=/dev/urandom of=/tmp/pattern bs=64k count=%d 2>/dev/null; `+
		`setsid sh -c 'while sleep 0.125; do dd if=/tmp/pattern of=/tmp/dirty bs=64k conv=notrunc; done' `+
		`>/dev/null 2>&1 </dev/null & sleep 1; echo`, each*2))
}

// vanish ends a pod that is no longer needed.
func (p *pod) vanish() {
	if pid, found := p.process("launcher"); found {
		process, err := os.FindProcess(pid)
		require.NoError(p.t, err)
		_ = process.Kill() // it may have ended by itself
	}
}

// events collects the libvirtds' events of a guest that leaves one for the other.
type events struct {
	mu               sync.Mutex
	stopped, resumed time.Time
	resumes          chan struct{}
}

// connects returns a connection to a pod's libvirtd.
func (p *pod) connects() *libvirt.Connect {
	p.t.Helper()
	var conn *libvirt.Connect
	p.eventually("libvirtd takes another client", func() bool {
		var err error
		conn, err = libvirt.NewConnect("qemu+unix:///session?socket=" + p.at(libvirtSocket))
		return err == nil
	})
	p.t.Cleanup(func() { _, _ = conn.Close() })
	return conn
}

const libvirtSocket = "private/run/libvirt/libvirt-sock"

// follow subscribes to the events of both.
func follow(t *testing.T, from, to *libvirt.Connect) *events {
	t.Helper()
	h := &events{resumes: make(chan struct{})}
	_, err := from.DomainEventLifecycleRegister(nil,
		func(_ *libvirt.Connect, _ *libvirt.Domain, e *libvirt.DomainEventLifecycle) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if e.Event == libvirt.DOMAIN_EVENT_SUSPENDED && h.stopped.IsZero() {
				h.stopped = time.Now()
			}
		})
	require.NoError(t, err)
	_, err = to.DomainEventLifecycleRegister(nil,
		func(_ *libvirt.Connect, _ *libvirt.Domain, e *libvirt.DomainEventLifecycle) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if e.Event == libvirt.DOMAIN_EVENT_RESUMED && h.resumed.IsZero() {
				h.resumed = time.Now()
				close(h.resumes)
			}
		})
	require.NoError(t, err)
	return h
}

// since returns the times of the move that began then.
func (h *events) since(t *testing.T, begun time.Time) took {
	t.Helper()
	select {
	case <-h.resumes:
	case <-time.After(deadline):
		require.Fail(t, "the guest does not resume at the target")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	require.False(t, h.stopped.IsZero(), "it has never stood still")
	return took{total: h.resumed.Sub(begun), downtime: h.resumed.Sub(h.stopped)}
}

// byNodeWorkers moves a guest as virtflow does, from the request to its source's node worker.
func byNodeWorkers(t *testing.T, from, to *pod) took {
	t.Helper()
	m := newWorkersMove(t, from, to)
	m.prepareBoth()
	h := follow(t, from.connects(), to.connects())
	begun := time.Now()
	outcome := m.outcome(m.migrates())
	require.Equal(t, contract.ResultMoved, outcome.Result, outcome.Reason)
	x := h.since(t, begun)
	t.Logf("by node workers: %s, downtime %s; they say %+v", x.total, x.downtime, outcome.Stats)
	return x
}

// byLibvirt moves a guest as libvirt does by itself, from the request to the source's libvirtd. What libvirt does not
// copy was carried before.
func byLibvirt(t *testing.T, from, to *pod) took {
	t.Helper()
	d, err := from.client.DescribeMigration(from.context(), &rpc.DescribeMigrationRequest{})
	require.NoError(t, err)
	newMove(t, from, to).prepare()
	source, target := from.connects(), to.connects()
	h := follow(t, source, target)
	domains, err := source.ListAllDomains(libvirt.CONNECT_LIST_DOMAINS_ACTIVE)
	require.NoError(t, err)
	require.Len(t, domains, 1)
	p := &libvirt.DomainMigrateParameters{
		URISet: true, URI: "tcp://127.0.0.1", ListenAddressSet: true, ListenAddress: "127.0.0.1", MigrateDisksSet: true}
	for _, disk := range d.GetDisks() {
		if disk.GetCopied() {
			p.MigrateDisks = append(p.MigrateDisks, disk.GetTarget())
		}
	}
	begun := time.Now()
	// Its error does not mean that the guest has not moved: the source's launcher ends with its guest, and libvirtd
	// with it, maybe before it answers.
	err = domains[0].MigrateToURI3("qemu+unix:///session?socket="+to.at(libvirtSocket), p,
		libvirt.MIGRATE_LIVE|libvirt.MIGRATE_PEER2PEER|libvirt.MIGRATE_PERSIST_DEST|libvirt.MIGRATE_UNDEFINE_SOURCE|
			libvirt.MIGRATE_NON_SHARED_INC)
	x := h.since(t, begun)
	t.Logf("by libvirt: %s, downtime %s; it says %v", x.total, x.downtime, err)
	return x
}
