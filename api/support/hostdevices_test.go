package support

import (
	"testing"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestHostDevicesNeedExternalProvider(t *testing.T) {
	require.Empty(t, HostDevices(nil))
	got := HostDevices(&kubevirtv1.PermittedHostDevices{
		PciHostDevices:  []kubevirtv1.PciHostDevice{{ResourceName: "a/b", ExternalResourceProvider: true}, {ResourceName: "a/c"}},
		MediatedDevices: []kubevirtv1.MediatedHostDevice{{ResourceName: "a/d"}},
		USB:             []kubevirtv1.USBHostDevice{{ResourceName: "a/e"}},
	})
	var fields []string
	for _, c := range got {
		require.Contains(t, c.Message, c.Field)
		fields = append(fields, c.Field)
	}
	require.Equal(t, []string{
		"spec.configuration.permittedHostDevices.pciHostDevices[1].externalResourceProvider",
		"spec.configuration.permittedHostDevices.mediatedDevices[0].externalResourceProvider",
		"spec.configuration.permittedHostDevices.usb[0].externalResourceProvider",
	}, fields)
}
