//go:build libvirt

package realtest

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// operate does one operation, which must succeed.
func (p *pod) operate(o rpc.Operation) *rpc.Domain {
	p.t.Helper()
	d, err := p.client.Operate(p.context(), &rpc.OperateRequest{Operation: o})
	require.NoError(p.t, err)
	return d
}

func (p *pod) refused(o rpc.Operation) {
	p.t.Helper()
	_, err := p.client.Operate(p.context(), &rpc.OperateRequest{Operation: o})
	require.Equal(p.t, codes.FailedPrecondition, status.Code(err), "%v", err)
}

func (p *pod) agentUp() {
	p.t.Helper()
	p.eventually("the agent is connected", func() bool {
		d, err := p.client.GetDomain(p.context(), &rpc.GetDomainRequest{})
		return err == nil && d.GetAgentConnected()
	})
}

func TestPauseAndResume(t *testing.T) {
	p := newPod(t, vmi(nil))
	for _, o := range []rpc.Operation{rpc.Operation_OPERATION_PAUSE, rpc.Operation_OPERATION_RESET,
		rpc.Operation_OPERATION_UNSPECIFIED} {
		p.refused(o)
	}
	p.boot()
	p.agentUp()
	for range 2 {
		require.Equal(t, rpc.DomainState_DOMAIN_STATE_PAUSED, p.operate(rpc.Operation_OPERATION_PAUSE).GetState())
	}
	_, code := p.probe("--guest-agent-ping")
	require.Zero(t, code, "a guest that is paused on purpose counts as alive")
	for range 2 {
		require.Equal(t, rpc.DomainState_DOMAIN_STATE_RUNNING, p.operate(rpc.Operation_OPERATION_UNPAUSE).GetState())
	}
	p.eventually("the agent answers", func() bool { _, code := p.probe("--guest-agent-ping"); return code == 0 })
}

func TestPausedGuestShutsDownWithItsPod(t *testing.T) {
	suite.TakeTurn(t, 4)
	p := newPod(t, vmi(nil))
	p.boot()
	p.operate(rpc.Operation_OPERATION_PAUSE)
	p.signal("launcher", syscall.SIGTERM)
	m, code := p.ends()
	require.Equal(t, contract.TerminationMessage{Reason: contract.ReasonShutdown, Ran: true}, m)
	require.Zero(t, code)
}

func TestPausedGuestWithoutGraceIsKilled(t *testing.T) {
	suite.TakeTurn(t, 5)
	p := newPod(t, vmi(func(spec map[string]any) { spec["terminationGracePeriodSeconds"] = 0 }))
	p.boot()
	p.operate(rpc.Operation_OPERATION_PAUSE)
	p.signal("launcher", syscall.SIGTERM)
	m, _ := p.ends()
	require.Equal(t, contract.ReasonDestroyed, m.Reason)
}

func TestRebootsKeepPod(t *testing.T) {
	suite.TakeTurn(t, 6)
	p := newPod(t, vmi(nil))
	p.boot()
	p.operate(rpc.Operation_OPERATION_RESET)
	p.guestUp(2)
	p.agentUp()
	p.operate(rpc.Operation_OPERATION_SOFT_REBOOT)
	p.guestUp(3)
	_, found := p.process("launcher")
	require.True(t, found)
}

func TestFreezeAndThaw(t *testing.T) {
	suite.TakeTurn(t, 7)
	p := newPod(t, vmi(nil))
	p.boot()
	p.agentUp()
	// Without a file system on a disk there is nothing to freeze.
	out, code := p.probe("--command", "sh", "--", "-c",
		"mke2fs /dev/vdb && mkdir -p /mnt && mount -t ext4 /dev/vdb /mnt")
	require.Zero(t, code, out)
	frozen := func() bool { _, code := p.probe("--command", "true"); return code != 0 }
	for range 2 {
		require.True(t, p.operate(rpc.Operation_OPERATION_FREEZE).GetFrozen())
		require.True(t, frozen(), "a frozen guest's agent runs nothing")
	}
	require.False(t, p.operate(rpc.Operation_OPERATION_THAW).GetFrozen())
	require.False(t, frozen())
	p.operate(rpc.Operation_OPERATION_THAW)

	_, err := p.client.Operate(p.context(),
		&rpc.OperateRequest{Operation: rpc.Operation_OPERATION_FREEZE, ThawAfterSeconds: 1})
	require.NoError(t, err)
	p.eventually("it thaws by itself", func() bool { return !frozen() })
	p.eventually("and says so", func() bool {
		d, err := p.client.GetDomain(p.context(), &rpc.GetDomainRequest{})
		return err == nil && !d.GetFrozen()
	})
}

// TestNothingIsFrozenAfterReset: no file system is frozen after a reset, nor after the guest has rebooted itself.
func TestNothingIsFrozenAfterReset(t *testing.T) {
	suite.TakeTurn(t, 0)
	p := newPod(t, vmi(nil))
	p.boot()
	for boots, again := range []func(){
		func() { require.False(t, p.operate(rpc.Operation_OPERATION_RESET).GetFrozen()) },
		func() { p.shell("reboot -f") }, // by itself
	} {
		p.agentUp()
		out, code := p.probe("--command", "sh", "--", "-c",
			"mke2fs /dev/vdb && mkdir -p /mnt && mount -t ext4 /dev/vdb /mnt")
		require.Zero(t, code, out)
		require.True(t, p.operate(rpc.Operation_OPERATION_FREEZE).GetFrozen())
		again()
		p.guestUp(boots + 2)
		p.eventually("it reports that it is not frozen", func() bool {
			d, err := p.client.GetDomain(p.context(), &rpc.GetDomainRequest{})
			return err == nil && !d.GetFrozen()
		})
	}
}
