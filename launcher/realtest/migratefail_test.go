//go:build libvirt

package realtest

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/migration"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// slow is a bandwidth at which a guest takes long enough to be disturbed.
const slow = 4 << 20

// copies waits until the memory is being copied.
func (m *move) copies() {
	m.t.Helper()
	m.from.eventually("the guest is being copied", func() bool {
		ctx, cancel := context.WithTimeout(m.t.Context(), deadline)
		defer cancel()
		events, err := m.from.client.Migrate(ctx, &rpc.MigrateRequest{Migration: m.uid}) // attaches
		require.NoError(m.t, err)
		e, err := events.Recv()
		require.NoError(m.t, err)
		require.NotNil(m.t, e.GetProgress(), "%s", e)
		return e.GetProgress().GetProcessed() > 0
	})
}

// slowly begins a move that takes long, and waits until it copies.
func slowly(t *testing.T) (*move, <-chan *rpc.MigrationEvent) {
	t.Helper()
	return slowlyFrom(t, booted(t))
}

// slowlyBefore is slowly, and has the guest run a command a moment after the copy has begun. Its agent gets the command
// before: while a guest moves, no command of a probe runs in it.
func slowlyBefore(t *testing.T, command string) (*move, <-chan *rpc.MigrationEvent) {
	t.Helper()
	from := booted(t)
	from.run("setsid sh -c 'sleep 5; " + command + "' > /dev/null 2>&1 < /dev/null &")
	return slowlyFrom(t, from)
}

func slowlyFrom(t *testing.T, from *pod) (*move, <-chan *rpc.MigrationEvent) {
	t.Helper()
	m := newMove(t, from, newTwin(t))
	m.options.Bandwidth = slow
	m.prepare()
	last := m.begin()
	m.copies()
	return m, last
}

func TestMoveIsAborted(t *testing.T) {
	m, last := slowly(t)
	_, err := m.from.client.Operate(m.from.context(), &rpc.OperateRequest{Operation: rpc.Operation_OPERATION_PAUSE})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
	other, err := m.from.client.Migrate(m.from.context(), &rpc.MigrateRequest{Migration: "another"})
	require.NoError(t, err)
	_, err = other.Recv()
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)

	begun := time.Now()
	answer, err := m.from.client.AbortMigration(m.from.context(),
		&rpc.AbortMigrationRequest{Migration: m.uid, Why: "not wanted"})
	require.NoError(t, err)
	require.True(t, answer.GetFound())
	stayed := m.stays(last)
	t.Logf("aborted in %s", time.Since(begun))
	require.True(t, stayed.GetAborted())
	require.Equal(t, "not wanted", stayed.GetReason())
	m.notReceived()

	// It can be moved afterwards.
	newMove(t, m.from, newTwin(t)).goes()
}

// TestAnswerOfFinishIsLost: libvirt resumes the source, and has left the target with the whole guest. Without the
// rule that only proof resumes a target the guest would run twice.
func TestAnswerOfFinishIsLost(t *testing.T) {
	from := booted(t)
	m := newMove(t, from, newTwin(t))
	cut := make(chan struct{})
	m.relay.at(libvirtFinish, true, func() bool { close(cut); return false })
	m.prepare()
	last := m.begin()
	m.stays(last)
	select {
	case <-cut:
	default:
		require.Fail(t, "the answer was not cut")
	}
	m.from.eventually("the target has the whole guest", func() bool {
		s, err := m.to.client.MigrationStatus(m.to.context(), &rpc.MigrationStatusRequest{})
		return err == nil && s.GetHeld()
	})
	_, err := m.to.client.Operate(m.to.context(), &rpc.OperateRequest{Operation: rpc.Operation_OPERATION_UNPAUSE})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
	_, err = m.to.client.FinishMigration(m.to.context(), &rpc.FinishMigrationRequest{Migration: m.uid})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "without proof: %v", err)
	m.withdraws()
}

func TestCallOfFinishIsLost(t *testing.T) {
	suite.TakeTurn(t, 6)
	from := booted(t)
	m := newMove(t, from, newTwin(t))
	m.relay.at(libvirtFinish, false, func() bool { return false })
	m.prepare()
	m.stays(m.begin())
	m.notReceived() // libvirt has ended what came
}

// TestRelayDiesOnceTargetHasAnswered: the source's proof counts all the same.
func TestRelayDiesOnceTargetHasAnswered(t *testing.T) {
	suite.TakeTurn(t, 7)
	from := booted(t)
	to := newTwin(t)
	m := newMove(t, from, to)
	m.relay.at(libvirtFinish, true, func() bool {
		time.AfterFunc(5*time.Millisecond, m.relay.stop)
		return true
	})
	m.goes()
	n := to.counted()
	to.eventually("it counts on", func() bool { return to.counted() > n })
}

func TestStreamsAreCut(t *testing.T) {
	suite.TakeTurn(t, 1)
	m, last := slowly(t)
	m.relay.stop()
	m.stays(last)
	m.notReceived()
}

func TestStreamsStall(t *testing.T) {
	suite.TakeTurn(t, 2)
	m, last := slowly(t)
	close(m.relay.stalled)
	stayed := m.stays(last)
	require.False(t, stayed.GetAborted())
}

func TestMemoryStalls(t *testing.T) {
	suite.TakeTurn(t, 3)
	from := booted(t)
	m := newMove(t, from, newTwin(t))
	m.options.Bandwidth = slow
	m.relay.each = func(c migration.Channel, _ bool, _ []byte) bool {
		if c == migration.ChannelMemory && m.relay.after(3*time.Second) {
			select {}
		}
		return true
	}
	m.prepare()
	last := m.begin()
	require.Contains(t, m.stays(last).GetReason(), "stalled")
	m.notReceived()
}

func TestWhatDiesAtTargetLeavesGuestAtItsSource(t *testing.T) {
	suite.TakeTurn(t, 4)
	from := booted(t)
	for _, program := range []string{"qemu-system-x86_64", "libvirtd", "launcher"} {
		m, last := slowlyFrom(t, from)
		t.Log(program)
		m.to.signal(program, syscall.SIGKILL)
		m.stays(last)
		if program != "launcher" {
			m.withdraws()
		}
	}
}

func TestLibvirtdDiesAtSource(t *testing.T) {
	suite.TakeTurn(t, 5)
	m, last := slowly(t)
	m.from.signal("libvirtd", syscall.SIGKILL)
	m.stays(last)
	m.withdraws()
	newMove(t, m.from, newTwin(t)).goes()
}

// TestLibvirtdDiesAtSourceWhenTargetHasGuest: at that moment only libvirt's file knows how far it was.
func TestLibvirtdDiesAtSourceWhenTargetHasGuest(t *testing.T) {
	suite.TakeTurn(t, 6)
	from := booted(t)
	for _, answer := range []bool{false, true} {
		m := newMove(t, from, newTwin(t))
		m.relay.at(libvirtFinish, answer, func() bool {
			from.signal("libvirtd", syscall.SIGKILL)
			return false
		})
		m.prepare()
		m.stays(m.begin())
		m.withdraws()
	}
}

func TestQEMUDiesAtSource(t *testing.T) {
	suite.TakeTurn(t, 7)
	m, last := slowly(t)
	m.from.signal("qemu-system-x86_64", syscall.SIGKILL)
	e := m.wait(last)
	require.NotNil(t, e.GetEnded(), "%s", e)
	message, _ := m.from.ends()
	require.Equal(t, contract.ReasonCrashed, message.Reason)
	m.withdraws()
}

func TestPodEndsWhileItsGuestMoves(t *testing.T) {
	suite.TakeTurn(t, 0)
	m, last := slowly(t)
	m.from.signal("launcher", syscall.SIGTERM)
	e := m.wait(last)
	require.NotNil(t, e.GetStayed(), "%s", e)
	message, _ := m.from.ends()
	require.Equal(t, contract.TerminationMessage{Reason: contract.ReasonShutdown, Ran: true}, message)
	m.withdraws()
}

func TestGuestPowersOffWhileItMoves(t *testing.T) {
	suite.TakeTurn(t, 1)
	m, last := slowlyBefore(t, "poweroff")
	e := m.wait(last)
	require.NotNil(t, e.GetEnded(), "%s", e)
	message, _ := m.from.ends()
	require.Equal(t, contract.TerminationMessage{Reason: contract.ReasonShutdown, Ran: true}, message)
	m.withdraws()
}

// TestGuestRebootsWhileItMoves: it is moved all the same, and comes up once more, at whichever end.
func TestGuestRebootsWhileItMoves(t *testing.T) {
	suite.TakeTurn(t, 2)
	m, last := slowlyBefore(t, "reboot")
	up := func(p *pod) int { return strings.Count(p.log(), "guest console: virtflow-guest ready") }
	m.from.eventually("it boots", func() bool { return countLog(m.from, "guest console: SYSLINUX") == 2 })
	_, err := m.from.client.AdjustMigration(m.from.context(), &rpc.AdjustMigrationRequest{
		Migration: m.uid, Change: &rpc.AdjustMigrationRequest_Bandwidth{Bandwidth: 1 << 30}})
	require.NoError(t, err)
	e := m.wait(last)
	require.NotNil(t, e.GetLeft(), "%s", e)
	m.finish(e.GetLeft())
	m.left(false)
	m.to.eventually("it has come up once more", func() bool { return up(m.from)+up(m.to) == 2 })
	m.to.agentUp()
	m.to.count()
	n := m.to.counted()
	m.to.eventually("and counts", func() bool { return m.to.counted() > n })
}

func TestTargetThatDoesNotSuitIsRefused(t *testing.T) {
	suite.TakeTurn(t, 3)
	from, to := booted(t), newTwin(t)
	image := to.at("images/root/disk/disk.img")
	f, err := os.OpenFile(image, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("another"), 1<<20)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	d, err := from.client.DescribeMigration(from.context(), &rpc.DescribeMigrationRequest{})
	require.NoError(t, err)
	require.Len(t, d.GetDisks(), 3)
	require.Equal(t, "seed.iso", d.GetFiles()[0].GetName())
	prepare := func(change func(*rpc.Target)) error {
		target := &rpc.Target{Migration: "uid", Disks: d.GetDisks()}
		change(target)
		stream, err := to.client.PrepareTarget(to.context())
		require.NoError(t, err)
		require.NoError(t, stream.Send(&rpc.PrepareTargetRequest{Target: target}))
		if err := stream.Send(&rpc.PrepareTargetRequest{Data: []byte("bytes")}); !errors.Is(err, io.EOF) {
			require.NoError(t, err)
		}
		_, err = stream.CloseAndRecv()
		return err
	}
	err = prepare(func(*rpc.Target) {})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "containerDisk root has other content on this node: name it by digest")
	for _, name := range []string{"../sockets/launcher.sock", "root-overlay.qcow2", "/etc/passwd", ""} {
		require.ErrorContains(t, prepare(func(target *rpc.Target) {
			target.Files = []*rpc.MigrationFile{{Name: name, Size: 5}}
		}), "no file", name)
	}
	require.ErrorContains(t, prepare(func(target *rpc.Target) {
		target.Files = []*rpc.MigrationFile{{Name: "seed.iso", Size: 5, Sha256: make([]byte, 32)}}
	}), "does not match the announced digest")
	require.ErrorContains(t, prepare(func(target *rpc.Target) {
		target.Files = []*rpc.MigrationFile{{Name: "seed.iso", Size: 1 << 40}}
	}), "exceeds the limit")
	_, err = to.client.StartDomain(to.context(), &rpc.StartDomainRequest{})
	require.Equal(t, codes.FailedPrecondition, status.Code(err), "its guest may run elsewhere: %v", err)
	require.NotContains(t, to.log(), `"Arrived"`)
}

// TestSourceDiesAtLastMoment: whichever process of the source is killed once the target has everything, the guest
// continues at one end at most, and the launchers agree on which.
func TestSourceDiesAtLastMoment(t *testing.T) {
	at := booted(t)
	for _, program := range []string{"libvirtd", "qemu-system-x86_64"} {
		for _, after := range []time.Duration{20, 5, 2, 0} {
			m := newMove(t, at, newTwin(t))
			pid, found := at.process(program)
			require.True(t, found)
			m.relay.at(libvirtFinish, true, func() bool {
				time.AfterFunc(after*time.Millisecond, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
				return true
			})
			m.prepare()
			e := m.wait(m.begin())
			t.Logf("%s after %d ms: %s", program, after, e)
			switch {
			case e.GetLeft() != nil:
				require.NotContains(t, m.to.log(), `\"resumed\"`)
				m.finish(e.GetLeft())
				m.left(false)
				at = m.to
			case e.GetStayed() != nil:
				m.withdraws()
			default:
				message, _ := at.ends()
				require.Equal(t, contract.ReasonCrashed, message.Reason)
				m.withdraws()
				at = booted(t)
			}
			n := at.counted()
			at.eventually("it counts on", func() bool { return at.counted() > n })
		}
	}
}

// TestPausesGuestForItsMove: the guest is paused for its move, and resumes at the target.
func TestPausesGuestForItsMove(t *testing.T) {
	suite.TakeTurn(t, 4)
	from := booted(t)
	m := newMove(t, from, newTwin(t))
	m.options = &rpc.MigrationOptions{Bandwidth: slow, CompletionSeconds: 15, AllowDisruption: true}
	m.prepare()
	e := m.wait(m.begin())
	t.Logf("%s", e)
	require.Equal(t, rpc.MigrationMode_MIGRATION_MODE_PAUSED, e.GetLeft().GetStats().GetMode())
	require.False(t, e.GetLeft().GetPaused())
	m.finish(e.GetLeft())
	m.left(false)
	n := m.to.counted()
	m.to.eventually("it counts on", func() bool { return m.to.counted() > n })
}

// TestMoveThatTakesTooLongIsAborted: a migration whose guest must not be paused is aborted at the end of its time.
func TestMoveThatTakesTooLongIsAborted(t *testing.T) {
	suite.TakeTurn(t, 5)
	from := booted(t)
	m := newMove(t, from, newTwin(t))
	m.options = &rpc.MigrationOptions{Bandwidth: slow, CompletionSeconds: 5}
	m.prepare()
	stayed := m.stays(m.begin())
	require.Equal(t, "not completed within 5s", stayed.GetReason())
	m.notReceived()
}

// TestGuestThatWritesFasterThanItIsCopied: the guest's memory is copied over and over, and the guest stays when the
// time is over. With auto-converge, the same guest at the same bandwidth is slowed down until it arrives, still
// writing.
func TestGuestThatWritesFasterThanItIsCopied(t *testing.T) {
	suite.TakeTurn(t, 6)
	const bandwidth = 8 << 20
	// Of the usual guest's memory too little is free.
	large := func(domain map[string]any) { domain["memory"] = map[string]any{"guest": "192Mi"} }
	from := booted(t, large)
	// Twelve MiB, which the guest rewrites several times in the second and a half that a round of copying them takes.
	from.run(`dd if=/dev/urandom of=/tmp/pattern bs=64k count=192 2>/dev/null; cp /tmp/pattern /tmp/dirty; ` +
		`setsid sh -c 'while :; do dd if=/tmp/pattern of=/tmp/dirty bs=64k conv=notrunc; echo >> /tmp/rounds; done' ` +
		`>/dev/null 2>&1 </dev/null & sleep 1; echo`)
	m := newMove(t, from, newTwin(t, large))
	m.options = &rpc.MigrationOptions{Bandwidth: bandwidth, CompletionSeconds: 40}
	m.prepare()
	stayed := m.stays(m.begin())
	t.Logf("%s", m.progress.Load())
	require.Equal(t, "not completed within 40s", stayed.GetReason())
	rounds := m.progress.Load().GetIteration()
	require.Greater(t, rounds, int32(3), "it is not the first round that has taken so long")
	m.notReceived()

	to := newTwin(t, large)
	m = newMove(t, from, to)
	m.options = &rpc.MigrationOptions{Bandwidth: bandwidth, AutoConverge: true}
	m.prepare()
	e := m.wait(m.begin())
	t.Logf("%s; %s", m.progress.Load(), e)
	require.NotNil(t, e.GetLeft(), "%s", e)
	require.Equal(t, rpc.MigrationMode_MIGRATION_MODE_PRE_COPY, e.GetLeft().GetStats().GetMode(), "it was not paused")
	m.finish(e.GetLeft())
	m.left(false)
	n := to.counted()
	to.eventually("it counts on", func() bool { return to.counted() > n })
	written := func() int { return seconds(t, to.run("wc -l < /tmp/rounds")) }
	n = written()
	to.eventually("and writes on", func() bool { return written() > n })
}
