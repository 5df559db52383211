package hardware_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/hardware"
)

// TestHardwareFromConfigurationToLauncher: settings arrive at the launcher, and the rest has KubeVirt's defaults.
func TestHardwareFromConfigurationToLauncher(t *testing.T) {
	t.Parallel()
	never, minute := uint32(0), uint32(60)
	for name, c := range map[string]struct {
		says kubevirt.KubeVirtConfiguration
		want hardware.Hardware
	}{
		"nothing": {kubevirt.KubeVirtConfiguration{}, hardware.Default()},
		"no statistics": {kubevirt.KubeVirtConfiguration{MemBalloonStatsPeriod: &never},
			hardware.Hardware{SMBIOS: hardware.Default().SMBIOS, Disks: hardware.Default().Disks}},
		"a minute": {kubevirt.KubeVirtConfiguration{MemBalloonStatsPeriod: &minute},
			hardware.Hardware{BalloonStats: 60, SMBIOS: hardware.Default().SMBIOS, Disks: hardware.Default().Disks}},
		"files on claims": {kubevirt.KubeVirtConfiguration{DeveloperConfiguration: &kubevirt.DeveloperConfiguration{
			LessPVCSpaceToleration: 25, MinimumReservePVCBytes: 1 << 20,
			DiskVerification: &kubevirt.DiskVerification{
				MemoryLimit: resource.NewQuantity(64<<20, resource.BinarySI)}}},
			hardware.Hardware{BalloonStats: 10, SMBIOS: hardware.Default().SMBIOS,
				Disks: hardware.Disks{Reserve: 1 << 20, TolerateLess: 25, ProbeMemory: 64 << 20}}},
		"nothing of files on claims": {kubevirt.KubeVirtConfiguration{
			DeveloperConfiguration: &kubevirt.DeveloperConfiguration{}}, hardware.Default()},
		"a part of SMBIOS": {kubevirt.KubeVirtConfiguration{
			SMBIOSConfig: &kubevirt.SMBiosConfiguration{Manufacturer: "$(POD_UID)$$", Sku: "1", Version: "2"}},
			hardware.Hardware{BalloonStats: 10, SMBIOS: kubevirt.SMBiosConfiguration{
				Manufacturer: "$(POD_UID)$$", Product: "None", Version: "2", Sku: "1", Family: "KubeVirt"},
				Disks: hardware.Default().Disks}},
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

func TestInvalidValue(t *testing.T) {
	t.Parallel()
	_, err := hardware.Decode("{")
	require.ErrorContains(t, err, "HARDWARE")
}
