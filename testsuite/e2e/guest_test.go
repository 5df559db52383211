//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// inGuest runs a command in the guest, through the page that the test guest serves for it inside its own network.
func (m *machine) inGuest(command string) {
	m.t.Helper()
	vmi, err := m.vmi()
	require.NoError(m.t, err)
	m.fromPod("order", fetchCommand(vmi.Status.Interfaces[0].IP, 80, "/cgi-bin/"+command)+" || true")
}

// TestGuestPowerOff: with run strategy Always the VM gets another instance.
func TestGuestPowerOff(t *testing.T) {
	suite.TakeTurn(t, 4)
	m := newMachine(t, "poweroff", "Always", "")
	first := m.untilBooted()
	m.inGuest("poweroff")
	until(t, bootTime, "another instance takes over", func() error {
		v, err := m.vmi()
		if err == nil && v.UID == first.UID {
			err = fmt.Errorf("instance %s is %s", v.UID, v.Status.Phase)
		}
		return err
	})
	m.untilBooted()
	m.remove()
}

// TestGuestReboot: same instance, same pod, same QEMU, two boots.
func TestGuestReboot(t *testing.T) {
	suite.TakeTurn(t, 3)
	m := newMachine(t, "again", "Always", "")
	first := m.untilBooted()
	before := m.domains()
	require.Len(t, before, 1)
	m.inGuest("reboot")
	until(t, bootTime, "the guest has booted twice", func() error {
		if n := strings.Count(m.console(), marker); n < 2 {
			return fmt.Errorf("%d boots so far", n)
		}
		return nil
	})
	after, err := m.vmi()
	require.NoError(t, err)
	require.Equal(t, first.UID, after.UID)
	require.Equal(t, before[0].pid, m.domains()[0].pid)
	m.remove()
}
