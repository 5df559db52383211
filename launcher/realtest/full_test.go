//go:build libvirt

package realtest

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestFullDiskPausesGuest: the guest pauses when its disk is full, and resumes by itself once there is space; its
// console shows both. With the error policy "report" the guest gets the error instead.
func TestFullDiskPausesGuest(t *testing.T) {
	suite.TakeTurn(t, 4)
	p := newPod(t, machineOf(t,
		`{"devices":{"disks":[{"name":"own","errorPolicy":"report","disk":{"bus":"virtio"}}]}}`))
	p.eventually("the launcher is there", func() bool { _, found := p.process("launcher"); return found })
	owner := fmt.Sprintf(",uid=%d,gid=%d", qemuUser, qemuUser)
	p.mounts("-t", "tmpfs", "-o", "size=4m"+owner, "small", "disks")
	p.boot()
	p.guestUp(1)
	// The test logs in to the serial port only once.
	p.shell(`dd if=/dev/urandom of=/dev/vdd bs=1M count=12 conv=fsync && echo "all of it ""fits"; ` +
		`echo "the guest continues"; read go; dd if=/dev/urandom of=/dev/vdb bs=1M count=12`)
	p.says("the guest continues")
	require.NotContains(t, p.log(), "guest console: all of it fits")
	d, err := p.client.GetDomain(p.context(), &rpc.GetDomainRequest{})
	require.NoError(t, err)
	require.Equal(t, rpc.DomainState_DOMAIN_STATE_RUNNING, d.GetState())
	_, err = io.WriteString(p.serial, "\n")
	require.NoError(t, err)
	p.pausesUntilThereIsSpace("disks", owner)
}

// pausesUntilThereIsSpace waits until a guest is paused because a tmpfs is full, and until it resumes once that is
// larger.
func (p *pod) pausesUntilThereIsSpace(at, owner string) {
	p.t.Helper()
	shows := func(state rpc.DomainState, why rpc.PauseReason) func() bool {
		return func() bool {
			d, err := p.client.GetDomain(p.context(), &rpc.GetDomainRequest{})
			return err == nil && d.GetState() == state && d.GetPauseReason() == why
		}
	}
	p.eventually("the guest is paused for want of space",
		shows(rpc.DomainState_DOMAIN_STATE_PAUSED, rpc.PauseReason_PAUSE_REASON_NO_SPACE))
	p.mounts("-t", "tmpfs", "-o", "remount,size=64m"+owner, "small", at)
	p.eventually("the guest resumes",
		shows(rpc.DomainState_DOMAIN_STATE_RUNNING, rpc.PauseReason_PAUSE_REASON_UNSPECIFIED))
}
