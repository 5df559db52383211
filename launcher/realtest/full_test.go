//go:build libvirt

package realtest

import (
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// TestAFullDiskPausesTheGuest, which says so and goes on by itself once there is space.
func TestAFullDiskPausesTheGuest(t *testing.T) {
	p := newPod(t, vmi(nil))
	pid := 0
	p.eventually("the launcher is there", func() (found bool) {
		pid, found = p.process("launcher")
		return found
	})
	mount := func(options string) {
		out, err := exec.Command("nsenter", "--mount", "--target", strconv.Itoa(pid), //nolint:gosec // a test's own
			"mount", "-t", "tmpfs", "-o", options+",uid="+strconv.Itoa(nobody)+",gid="+
				strconv.Itoa(nobody), "small", p.at("disks")).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	mount("size=4m")
	p.boot()
	p.guestUp(1)
	p.shell("dd if=/dev/urandom of=/dev/vdb bs=1M count=12")
	shows := func(state rpc.DomainState, why rpc.PauseReason) func() bool {
		return func() bool {
			d, err := p.client.GetDomain(p.context(), &rpc.GetDomainRequest{})
			return err == nil && d.GetState() == state && d.GetPauseReason() == why
		}
	}
	p.eventually("the guest is paused for want of space",
		shows(rpc.DomainState_DOMAIN_STATE_PAUSED, rpc.PauseReason_PAUSE_REASON_NO_SPACE))
	mount("remount,size=64m")
	p.eventually("the guest goes on",
		shows(rpc.DomainState_DOMAIN_STATE_RUNNING, rpc.PauseReason_PAUSE_REASON_UNSPECIFIED))
}
