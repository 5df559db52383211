//go:build libvirt

package realtest

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

func TestGuestMovesByNodeWorkers(t *testing.T) {
	from := booted(t)
	written := from.run("dd if=/dev/urandom of=/dev/vdb bs=1M count=8 2>/dev/null; sync; sha256sum < /dev/vdb")
	seed := from.run("sha256sum < /dev/sr0")
	before := from.counted()
	m := newWorkersMove(t, from, newTwin(t))
	m.prepareBoth()
	outcome := m.outcome(m.migrates())
	require.Equal(t, contract.ResultMoved, outcome.Result, outcome.Reason)
	require.NotNil(t, outcome.Proof)
	require.NotZero(t, outcome.Stats.DowntimeMs)
	require.NotZero(t, outcome.Stats.Bytes)
	t.Logf("by %s; %+v", outcome.Proof.By, outcome.Stats)
	truth := m.inspects(m.target)
	require.True(t, truth.Known && truth.Granted && truth.Resumed)
	require.Equal(t, contract.DomainRunning, truth.Domain.State)
	m.left(false)
	require.Greater(t, m.to.counted(), before)
	require.Equal(t, written, m.to.run("sha256sum < /dev/vdb"))
	require.Equal(t, seed, m.to.run("sha256sum < /dev/sr0"))
	require.False(t, m.inspects(m.source).Reached, "nothing of the source is left")
}

func TestGuestMovesByNodeWorkersThroughParallelConnections(t *testing.T) {
	suite.TakeTurn(t, 6)
	m := newWorkersMove(t, booted(t), newTwin(t))
	m.prepareBoth()
	m.in.Configuration.Parallel = 4
	outcome := m.outcome(m.migrates())
	require.Equal(t, contract.ResultMoved, outcome.Result, outcome.Reason)
	m.left(false)
}

// TestNodeWorkerIsKilledMidCopy: the guest stays at its source, as its launcher reports, and nothing of the target
// remains.
func TestNodeWorkerIsKilledMidCopy(t *testing.T) {
	suite.TakeTurn(t, 7)
	for name, source := range map[string]bool{"the source's": true, "the target's": false} {
		t.Run(name, func(t *testing.T) {
			m := newWorkersMove(t, booted(t), newTwin(t))
			m.prepareBoth()
			m.in.Configuration.Bandwidth = slow
			call := m.migrates()
			m.from.eventually("the move begins", func() bool { return m.inspects(m.source).UnderWay })
			m.copies()
			killed := m.target
			if source {
				killed = m.source
			}
			killed.kill()
			killed.start()
			if source {
				call = m.migrates() // the activity's next attempt
			}
			outcome := m.outcome(call)
			require.Equal(t, contract.ResultStayed, outcome.Result, outcome.Reason)
			require.Nil(t, outcome.Proof)
			t.Log(outcome.Reason)
			m.runs()
			m.withdrawsTarget()
			require.False(t, m.inspects(m.source).UnderWay)
		})
	}
}

func TestMoveByNodeWorkersIsAborted(t *testing.T) {
	suite.TakeTurn(t, 0)
	m := newWorkersMove(t, booted(t), newTwin(t))
	m.prepareBoth()
	m.in.Configuration.Bandwidth = slow
	call := m.migrates()
	m.from.eventually("the move begins", func() bool { return m.inspects(m.source).UnderWay })
	m.copies()
	migration, vmi := m.of()
	var found bool
	m.source.call("Abort", contract.AbortMigrationInput{
		Migration: migration, VMI: vmi, Pod: m.source.object(), Why: "requested by a user"}, &found)
	require.True(t, found)
	outcome := m.outcome(call)
	require.Equal(t, contract.MigrationOutcome{Result: contract.ResultStayed, Reason: "requested by a user",
		Aborted: true}, outcome)
	m.notReceived() // the source has notified the target
	m.runs()
}

// dirties changes memory endlessly, faster than it is copied slowly.
func (p *pod) dirties() {
	p.t.Helper()
	p.run(`setsid sh -c 'while :; do dd if=/dev/urandom of=/tmp/dirty bs=1M count=12 conv=notrunc; done' ` +
		`>/dev/null 2>&1 </dev/null & sleep 1; echo`)
}

// TestGuestIsPausedToMove: a guest that would never arrive does once a person requests the pause.
func TestGuestIsPausedToMove(t *testing.T) {
	suite.TakeTurn(t, 1)
	from := booted(t)
	from.dirties()
	m := newWorkersMove(t, from, newTwin(t))
	m.prepareBoth()
	m.in.Configuration.Bandwidth = slow
	call := m.migrates()
	m.from.eventually("the move begins", func() bool { return m.inspects(m.source).UnderWay })
	m.copies()
	m.adjusts(contract.AdjustMigrationInput{Pause: true}, call)
	m.adjusts(contract.AdjustMigrationInput{Bandwidth: 1 << 30}, call)
	outcome := m.outcome(call)
	require.Equal(t, contract.ResultMoved, outcome.Result, outcome.Reason)
	require.Equal(t, "Paused", outcome.Mode)
	require.False(t, outcome.Proof.Paused, "only the migration has paused it")
	m.left(false)
	n := m.to.counted()
	m.to.eventually("it runs there", func() bool { return m.to.counted() > n })
}

// TestAbortsMoveWithoutProgress: the target accepts no more of the guest. It stays, and its move ends.
func TestAbortsMoveWithoutProgress(t *testing.T) {
	suite.TakeTurn(t, 2)
	m := newWorkersMove(t, booted(t), newTwin(t))
	m.prepareBoth()
	m.in.Configuration = contract.MigrationConfiguration{Bandwidth: slow, Progress: 5}
	call := m.migrates()
	m.from.eventually("the move begins", func() bool { return m.inspects(m.source).UnderWay })
	m.copies()
	m.to.signal("qemu-system-x86_64", syscall.SIGSTOP)
	outcome := m.outcome(call)
	require.Equal(t, contract.ResultStayed, outcome.Result, outcome.Reason)
	t.Log(outcome.Reason)
	require.Contains(t, outcome.Reason, "for 5s")
	require.False(t, outcome.Aborted, "no abort was requested")
	m.notReceived()
	m.runs()
}

// TestTargetDiskIsFull: the target has no space for what the guest has written. The guest stays, and can still write.
func TestTargetDiskIsFull(t *testing.T) {
	suite.TakeTurn(t, 3)
	from, to := booted(t), newTwin(t)
	from.run("dd if=/dev/urandom of=/dev/vdb bs=1M count=12; sync")
	to.smallDisks()
	m := newWorkersMove(t, from, to)
	m.prepareBoth()
	outcome := m.outcome(m.migrates())
	require.Equal(t, contract.ResultStayed, outcome.Result, outcome.Reason)
	require.Contains(t, outcome.Reason, "migration of disk vdb failed: No space left on device")
	m.notReceived()
	m.runs()
	from.run("dd if=/dev/urandom of=/dev/vdb bs=1M count=4; sync")
}

// smallDisks gives a launcher that has not begun a file system of 8 MiB for its disks.
func (p *pod) smallDisks() {
	p.t.Helper()
	file := p.at("small.ext4")
	for _, command := range [][]string{
		{"truncate", "--size", "8M", file},
		{"mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", "-E",
			fmt.Sprintf("root_owner=%d:%d", qemuUser, qemuUser), file},
	} {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		require.NoError(p.t, err, "%s", out)
	}
	p.mounts("-o", "loop", file, "disks")
}
