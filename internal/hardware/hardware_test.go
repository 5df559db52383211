package hardware_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/hardware"
)

// What a configuration says arrives at the launcher, and what it does not say is KubeVirt's default.
func TestHardwareFromTheConfigurationToTheLauncher(t *testing.T) {
	t.Parallel()
	never, minute := uint32(0), uint32(60)
	for name, c := range map[string]struct {
		says kubevirt.KubeVirtConfiguration
		want hardware.Hardware
	}{
		"nothing": {kubevirt.KubeVirtConfiguration{}, hardware.Default()},
		"no statistics": {kubevirt.KubeVirtConfiguration{MemBalloonStatsPeriod: &never},
			hardware.Hardware{SMBIOS: hardware.Default().SMBIOS}},
		"a minute": {kubevirt.KubeVirtConfiguration{MemBalloonStatsPeriod: &minute},
			hardware.Hardware{BalloonStats: 60, SMBIOS: hardware.Default().SMBIOS}},
		"a part of SMBIOS": {kubevirt.KubeVirtConfiguration{
			SMBIOSConfig: &kubevirt.SMBiosConfiguration{Manufacturer: "$(POD_UID)$$", Sku: "1", Version: "2"}},
			hardware.Hardware{BalloonStats: 10, SMBIOS: kubevirt.SMBiosConfiguration{
				Manufacturer: "$(POD_UID)$$", Product: "None", Version: "2", Sku: "1", Family: "KubeVirt"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value, err := hardware.From(&c.says).Encode()
			require.NoError(t, err)
			require.Equal(t, c.want == hardware.Default(), value == "", "the default is not written")
			require.NotContains(t, value, "$", "Kubernetes would expand it")
			got, err := hardware.Decode(value)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestAValueThatIsNoHardware(t *testing.T) {
	t.Parallel()
	_, err := hardware.Decode("{")
	require.ErrorContains(t, err, "HARDWARE")
}
