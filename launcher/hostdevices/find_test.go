package hostdevices

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/domain"
)

func TestFind(t *testing.T) {
	spec := &v1.DomainSpec{}
	spec.Devices.GPUs = []v1.GPU{{DeviceName: "vendor.example/TU104-GL"}, {DeviceName: "vendor.example/absent"}}
	spec.Devices.HostDevices = []v1.HostDevice{{DeviceName: "a.b/stick"}, {DeviceName: "a.b/slice"}}
	environment := map[string]string{
		"PCI_RESOURCE_VENDOR_EXAMPLE_TU104-GL": "0000:60:00.0, 0000:60:01.0,", "USB_RESOURCE_A_B_STICK": "1:2",
		"MDEV_PCI_RESOURCE_A_B_SLICE": "aa618089-8b16-4d01-a136-25a0f3c73123", "PCI_RESOURCE_OF_ANOTHER_POD": "0000:00:00.0",
	}
	require.Equal(t, domain.HostDevices{
		PCI:      map[string][]string{"vendor.example/TU104-GL": {"0000:60:00.0", "0000:60:01.0"}},
		Mediated: map[string][]string{"a.b/slice": {"aa618089-8b16-4d01-a136-25a0f3c73123"}},
		USB:      map[string][]string{"a.b/stick": {"1:2"}},
	}, Find(spec, func(name string) string { return environment[name] }))
}
