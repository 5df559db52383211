package capabilities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/capabilities"
)

const host = `<capabilities><host><cpu><arch>x86_64</arch><model>EPYC</model><counter name='tsc' frequency='2400000000' scaling='yes'/></cpu></host>
<guest><os_type>hvm</os_type><arch name='i686'><machine>isapc</machine></arch></guest>
<guest><os_type>hvm</os_type><arch name='x86_64'><machine canonical='pc-q35-7.2'>q35</machine>
<machine>pc-q35-7.2</machine><machine deprecated='yes'>pc-q35-7.1</machine>
<domain type='qemu'/><domain type='kvm'/></arch></guest></capabilities>`

const guest = `<domainCapabilities><cpu><mode name='host-passthrough' supported='yes'/><mode name='host-model' supported='yes'><model fallback='forbid'>EPYC-Rome</model>
<vendor>AMD</vendor><feature policy='require' name='x2apic'/><feature policy='disable' name='svm'/></mode>
<mode name='custom' supported='yes'><model usable='yes'>Nehalem</model><model usable='no'>Skylake-Client</model></mode></cpu></domainCapabilities>`

const baseline = `<cpu mode='custom' match='exact'><model>EPYC-Rome</model><feature policy='require' ` +
	`name='sse4.1'/><feature policy='require' name='aes'/><feature policy='disable' name='svm'/></cpu>`

func TestFrom(t *testing.T) {
	with, err := capabilities.From(host, guest, baseline, "kvm")
	require.NoError(t, err)
	require.Equal(t, contract.HostCapabilities{
		VirtType: "kvm", MachineTypes: []string{"pc-q35-7.1", "pc-q35-7.2", "q35"},
		DeprecatedMachineTypes: []string{"pc-q35-7.1"}, CPUModels: []string{"Nehalem"},
		CPUFeatures: []string{"aes", "sse4.1"},
		HostModel:   "EPYC-Rome", HostModelFeatures: []string{"x2apic"}, TSCFrequency: 2400000000, TSCScalable: true,
	}, with)

	// The frequency of an emulated clock does not depend on the host's.
	without, err := capabilities.From(host, guest, baseline, "qemu")
	require.NoError(t, err)
	with.VirtType, with.TSCFrequency, with.TSCScalable = "qemu", 0, false
	require.Equal(t, with, without)

	_, err = capabilities.From("<", guest, baseline, "kvm")
	require.Error(t, err)
}
