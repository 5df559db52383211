//go:build libvirt

package realtest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// mountPoint is where pods that a guest moves between see their directories.
var mountPoint = filepath.Join(os.TempDir(), "vf-mount")

// newTwin is a pod that a guest moves from or to. Its cloud-init data is on a CD-ROM, which libvirt does not copy: the
// move has to carry it.
func newTwin(t *testing.T, changes ...func(domain map[string]any)) *pod {
	t.Helper()
	return newPodAt(t, vmi(func(spec map[string]any) {
		domain := spec["domain"].(map[string]any)
		for _, change := range changes {
			change(domain)
		}
		devices := domain["devices"].(map[string]any)
		devices["disks"].([]any)[2] = map[string]any{"name": "seed", "cdrom": map[string]any{"bus": "sata"}}
	}), "", mountPoint)
}

// move is one migration as the node workers run it.
type move struct {
	t        *testing.T
	uid      string
	from, to *pod
	relay    *relay
	options  *rpc.MigrationOptions
	// interfaces of the target.
	interfaces []*rpc.PodInterface
	// progress is the last that was received.
	progress atomic.Pointer[rpc.MigrationProgress]
}

func newMove(t *testing.T, from, to *pod) *move {
	t.Helper()
	m := &move{t: t, uid: uuid.NewString(), from: from, to: to, options: &rpc.MigrationOptions{}}
	m.relay = newRelay(t, m.uid, from, to)
	return m
}

// prepare carries what libvirt does not copy, and prepares the target.
func (m *move) prepare() {
	m.t.Helper()
	d, err := m.from.client.DescribeMigration(m.from.context(), &rpc.DescribeMigrationRequest{})
	require.NoError(m.t, err)
	stream, err := m.to.client.PrepareTarget(m.to.context())
	require.NoError(m.t, err)
	require.NoError(m.t, stream.Send(&rpc.PrepareTargetRequest{
		Target: &rpc.Target{Migration: m.uid, Disks: d.GetDisks(), Files: d.GetFiles(), Interfaces: m.interfaces}}))
	for _, f := range d.GetFiles() {
		content, err := m.from.client.ReadFile(m.from.context(), &rpc.ReadFileRequest{Name: f.GetName()})
		require.NoError(m.t, err)
		for {
			piece, err := content.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(m.t, err)
			require.NoError(m.t, stream.Send(&rpc.PrepareTargetRequest{Data: piece.GetData()}))
		}
	}
	_, err = stream.CloseAndRecv()
	require.NoError(m.t, err)
}

// begin has the source migrate; the last event comes on the channel.
func (m *move) begin() <-chan *rpc.MigrationEvent {
	m.t.Helper()
	events, err := m.from.client.Migrate(m.from.context(), &rpc.MigrateRequest{Migration: m.uid, Options: m.options})
	require.NoError(m.t, err)
	first, err := events.Recv()
	require.NoError(m.t, err)
	require.NotNil(m.t, first.GetProgress())
	m.relay.start()
	last := make(chan *rpc.MigrationEvent, 1)
	go func() {
		defer close(last)
		for {
			e, err := events.Recv()
			if err != nil {
				return
			}
			if p := e.GetProgress(); p != nil {
				m.progress.Store(p)
			} else {
				last <- e
			}
		}
	}()
	return last
}

func (m *move) wait(last <-chan *rpc.MigrationEvent) *rpc.MigrationEvent {
	m.t.Helper()
	select {
	case e, ok := <-last:
		require.True(m.t, ok, "the source's launcher hung up")
		return e
	case <-time.After(deadline):
		require.Fail(m.t, "the migration did not end")
		return nil
	}
}

func (m *move) finish(left *rpc.MigrationLeft) *rpc.Domain {
	m.t.Helper()
	d, err := m.to.client.FinishMigration(m.to.context(), &rpc.FinishMigrationRequest{
		Migration: m.uid, Proof: left.GetProof(), Paused: left.GetPaused()})
	require.NoError(m.t, err)
	return d
}

// held waits until the target has the whole guest, and returns when that was.
func (m *move) held() <-chan time.Time {
	at := make(chan time.Time, 1)
	go func() {
		for m.t.Context().Err() == nil {
			s, err := m.to.client.MigrationStatus(m.t.Context(), &rpc.MigrationStatusRequest{})
			if err != nil || s.GetHeld() || s.GetGranted() {
				at <- time.Now()
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
	}()
	return at
}

// goes moves the guest, which has to succeed, and returns how long it stood still.
func (m *move) goes() time.Duration {
	m.t.Helper()
	m.prepare()
	begun := time.Now()
	last, held := m.begin(), m.held()
	e := m.wait(last)
	dead := time.Now()
	require.NotNil(m.t, e.GetLeft(), "%s", e)
	m.finish(e.GetLeft())
	resumed := time.Now()
	stopped := time.UnixMilli(e.GetLeft().GetStoppedAt())
	if !e.GetLeft().GetPaused() {
		require.WithinDuration(m.t, resumed, stopped, deadline)
	}
	ms := func(from, to time.Time) int64 { return to.Sub(from).Milliseconds() }
	// If libvirt resumed the target by itself, the guest would run when it is held here.
	m.t.Logf("moved in %d ms; stop → held %d ms → %s %d ms → resumed %d ms; %s", ms(begun, resumed),
		ms(stopped, <-held), e.GetLeft().GetProof(), ms(stopped, dead), ms(stopped, resumed), e.GetLeft().GetStats())
	m.left(e.GetLeft().GetPaused())
	m.to.eventually("the guest runs at the target", func() bool {
		d, err := m.to.client.GetDomain(m.to.context(), &rpc.GetDomainRequest{})
		return err == nil && (d.GetState() == rpc.DomainState_DOMAIN_STATE_RUNNING || e.GetLeft().GetPaused())
	})
	return resumed.Sub(stopped)
}

// left checks how the source ended, whose guest may have been paused.
func (m *move) left(paused bool) {
	m.t.Helper()
	message, code := m.from.ends()
	require.Equal(m.t,
		contract.TerminationMessage{Reason: contract.ReasonMigrated, Ran: true, Paused: paused}, message)
	require.Zero(m.t, code)
}

// stays waits for a move that fails: the guest runs on at its source, and has never run at the target.
func (m *move) stays(last <-chan *rpc.MigrationEvent) *rpc.MigrationStayed {
	m.t.Helper()
	e := m.wait(last)
	require.NotNil(m.t, e.GetStayed(), "%s", e)
	m.t.Logf("stayed: %s", e.GetStayed())
	require.NotContains(m.t, m.to.log(), `\"resumed\"`, "the target's guest has run")
	m.from.eventually("the guest runs on", func() bool {
		d, err := m.from.client.GetDomain(m.from.context(), &rpc.GetDomainRequest{})
		return err == nil && d.GetState() == rpc.DomainState_DOMAIN_STATE_RUNNING
	})
	n := m.from.counted()
	m.from.eventually("and counts", func() bool { return m.from.counted() > n })
	return e.GetStayed()
}

// withdraws ends the target.
func (m *move) withdraws() {
	m.t.Helper()
	_, err := m.to.client.WithdrawTarget(m.to.context(), &rpc.WithdrawTargetRequest{Migration: m.uid})
	if err != nil {
		require.Equal(m.t, codes.Unavailable, status.Code(err), "%v", err) // it has ended by itself
	}
	m.notReceived()
}

func (m *move) notReceived() {
	m.t.Helper()
	message, code := m.to.ends()
	require.Equal(m.t, contract.TerminationMessage{Reason: contract.ReasonNotReceived}, message)
	require.Zero(m.t, code)
	require.NotContains(m.t, m.to.log(), `\"resumed\"`, "the target's guest has run")
}

// run has the guest's agent run a shell's command.
func (p *pod) run(command string) string {
	p.t.Helper()
	var out *rpc.GuestExecResponse
	p.eventually("the agent runs "+command, func() (ok bool) {
		var err error
		out, err = p.client.GuestExec(p.context(),
			&rpc.GuestExecRequest{Command: "sh", Arguments: []string{"-c", command}, TimeoutSeconds: 10})
		return err == nil
	})
	require.Zero(p.t, out.GetExitCode(), "%s: %s", command, out.GetOutput())
	return string(out.GetOutput())
}

// count starts a counter in the guest's memory, which continues with the guest.
func (p *pod) count() {
	p.t.Helper()
	p.run(`setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i > /tmp/count.new; mv /tmp/count.new /tmp/count; ` +
		`sleep 0.1; done' ` +
		`>/dev/null 2>&1 </dev/null & sleep 0.3; cat /tmp/count`)
}

func (p *pod) counted() int {
	p.t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(p.run("cat /tmp/count")))
	require.NoError(p.t, err)
	return n
}

func TestGuestMovesWithItsDisks(t *testing.T) {
	from := newTwin(t)
	from.boot()
	from.agentUp()
	from.count()
	// Distributions may be built for x86-64-v3: the emulated CPU has its features, and such a guest can migrate.
	require.Subset(t, strings.Fields(from.run("grep -m1 ^flags /proc/cpuinfo")),
		[]string{"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"})
	// The checksums of the empty disk and of the cloud-init CD-ROM are compared after the migration.
	written := from.run("dd if=/dev/urandom of=/dev/vdb bs=1M count=8 2>/dev/null; sync; sha256sum < /dev/vdb")
	seed := from.run("sha256sum < /dev/sr0")
	before := from.counted()
	to := newTwin(t)
	m := newMove(t, from, to)
	m.goes()
	require.Greater(t, to.counted(), before)
	to.run("echo 3 >/proc/sys/vm/drop_caches") // the guest's memory has moved, too
	require.Equal(t, written, to.run("sha256sum < /dev/vdb"))
	require.Equal(t, seed, to.run("sha256sum < /dev/sr0"))
	require.NotContains(t, to.log(), "virtflow-guest ready", "the guest has not booted again")
	// It is a guest as any other there.
	to.signal("launcher", syscall.SIGTERM)
	message, _ := to.ends()
	require.Equal(t, contract.TerminationMessage{Reason: contract.ReasonShutdown, Ran: true}, message)
}

// booted is a guest that counts.
func booted(t *testing.T, changes ...func(domain map[string]any)) *pod {
	t.Helper()
	p := newTwin(t, changes...)
	p.boot()
	p.agentUp()
	p.count()
	return p
}

func TestGuestMovesTenTimes(t *testing.T) {
	suite.TakeTurn(t, 1)
	at := booted(t)
	before := at.counted()
	for range 10 {
		next := newTwin(t)
		newMove(t, at, next).goes()
		at = next
		now := at.counted()
		require.Greater(t, now, before)
		before = now
	}
}

func TestPausedGuestStaysPaused(t *testing.T) {
	suite.TakeTurn(t, 3)
	from := booted(t)
	from.operate(rpc.Operation_OPERATION_PAUSE)
	to := newTwin(t)
	newMove(t, from, to).goes()
	require.NotContains(t, to.log(), `\"resumed\"`)
	require.Equal(t, rpc.DomainState_DOMAIN_STATE_RUNNING, to.operate(rpc.Operation_OPERATION_UNPAUSE).GetState())
	n := to.counted()
	to.eventually("it counts on", func() bool { return to.counted() > n })
}

func TestGuestMovesThroughParallelConnections(t *testing.T) {
	suite.TakeTurn(t, 4)
	from := booted(t)
	m := newMove(t, from, newTwin(t))
	m.options.Parallel = 4
	m.goes()
}

func TestGuestKeepsItsAddressWhereItMoves(t *testing.T) {
	suite.TakeTurn(t, 5)
	name := "vf-real-" + strconv.Itoa(syscall.Getpid())
	here, there := podNetworkNamed(t, name+"-a"), podNetworkNamed(t, name+"-b")
	from := newPodAt(t, vmi(masquerade), here, mountPoint)
	from.bootWith(podInterface())
	answers := func(namespace string) func() bool {
		return func() bool { return strings.Contains(get(namespace, "10.0.2.2:80"), "hello from") }
	}
	from.eventually("the guest's web server answers", answers(here))
	to := newPodAt(t, vmi(masquerade), there, mountPoint)
	m := newMove(t, from, to)
	m.interfaces = []*rpc.PodInterface{podInterface()}
	m.goes()
	to.eventually("it answers at the target", answers(there))
	d, err := to.client.GetDomain(to.context(), &rpc.GetDomainRequest{})
	require.NoError(t, err)
	require.Equal(t, "eth0", d.GetInterfaces()[0].GetPodInterface())
	to.agentUp()
	// The target's own server renews its lease.
	to.run("udhcpc -n -q -i eth0")
	require.Contains(t, to.log(), "answered DHCP")
	skew := time.Since(time.Unix(int64(seconds(t, to.run("date +%s"))), 0))
	require.Less(t, skew.Abs(), 3*time.Second, "the guest's clock")
}

func seconds(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(t, err)
	return n
}
