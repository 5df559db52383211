//go:build libvirt

package realtest

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/testsuite/turns"
)

// TestAFullDiskPausesTheGuest, which says so and goes on by itself once there is space; unless the disk's errors are
// to be the guest's own.
func TestAFullDiskPausesTheGuest(t *testing.T) {
	turns.Take(t, 4)
	p := newPod(t, machineOf(t,
		`{"devices":{"disks":[{"name":"own","errorPolicy":"report","disk":{"bus":"virtio"}}]}}`))
	p.eventually("the launcher is there", func() bool { _, found := p.process("launcher"); return found })
	owner := fmt.Sprintf(",uid=%d,gid=%d", qemuUser, qemuUser)
	p.mounts("-t", "tmpfs", "-o", "size=4m"+owner, "small", "disks")
	p.boot()
	p.guestUp(1)
	// A serial port is logged in to once.
	p.shell(`dd if=/dev/urandom of=/dev/vdd bs=1M count=12 conv=fsync && echo "all of it ""fits"; ` +
		`echo "the guest goes on"; read go; dd if=/dev/urandom of=/dev/vdb bs=1M count=12`)
	p.says("the guest goes on")
	require.NotContains(t, p.log(), "guest console: all of it fits")
	d, err := p.client.GetDomain(p.context(), &rpc.GetDomainRequest{})
	require.NoError(t, err)
	require.Equal(t, rpc.DomainState_DOMAIN_STATE_RUNNING, d.GetState())
	_, err = io.WriteString(p.serial, "\n")
	require.NoError(t, err)
	p.pausesUntilThereIsSpace("disks", owner)
}

// pausesUntilThereIsSpace waits for a guest to be paused because a tmpfs is full, and to go on once that is larger.
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
	p.eventually("the guest goes on",
		shows(rpc.DomainState_DOMAIN_STATE_RUNNING, rpc.PauseReason_PAUSE_REASON_UNSPECIFIED))
}
