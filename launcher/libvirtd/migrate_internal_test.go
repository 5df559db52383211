package libvirtd

import (
	"testing"

	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirt"

	"github.com/virtflow/virtflow/launcher/guest"
)

func TestPhaseOf(t *testing.T) {
	for want, status := range map[string]string{
		"confirm3": `<domstatus state='paused' reason='migration' pid='30'><job type='none' async='migration out' ` +
			`phase='confirm3' flags='0x0'><disk dev='vda' migrating='no'/></job><domain type='qemu' id='1'/></domstatus>`,
		"prepare": `<domstatus state='paused' reason='migration'><job type='none' async='migration in' phase='prepare'/>` +
			`<domain/></domstatus>`,
		"":                 `<domstatus state='running' reason='booted' pid='30'><domain type='qemu'/></domstatus>`,
		guest.PhaseUnknown: `<domstatus state='paused' reason='migration' pid='30'><job type='none' async='migr`,
	} {
		require.Equal(t, want, phaseOf([]byte(status)), status)
	}
	require.Empty(t, phaseOf([]byte(`<domstatus><job type='modify' async='none'/></domstatus>`)))
	require.Equal(t, guest.PhaseUnknown, phaseOf(nil))
	require.Equal(t, guest.PhaseUnknown, phaseOf([]byte(`<domain><job async='migration out' phase='confirm3'/></domain>`)))
}

// TestBandwidthIsNeverZero: 0 would mean no limit.
func TestBandwidthIsNeverZero(t *testing.T) {
	require.EqualValues(t, 1, mebibytes(1))
	require.EqualValues(t, 1, mebibytes(1<<20))
	require.EqualValues(t, 2, mebibytes(1<<20+1))
}

func TestMigratedGuestIsNoCrash(t *testing.T) {
	s := stateOf(libvirt.DOMAIN_SHUTOFF, int(libvirt.DOMAIN_SHUTOFF_MIGRATED), true)
	require.Equal(t, guest.Migrated, s)
	require.True(t, s.Ended())
}
