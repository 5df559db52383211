package domain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/domain"
)

func TestRefusesMissingHostDevices(t *testing.T) {
	for name, c := range map[string]struct {
		devices string
		there   domain.HostDevices
		err     string
	}{
		"none": {`"gpus":[{"name":"a","deviceName":"v/gpu"}]`, domain.HostDevices{},
			"spec.domain.devices.gpus[0].deviceName"},
		"of USB": {`"gpus":[{"name":"a","deviceName":"v/gpu"}]`,
			domain.HostDevices{USB: map[string][]string{"v/gpu": {"1:2"}}}, "no (further) device"},
		"too few": {`"hostDevices":[{"name":"a","deviceName":"v/x"},{"name":"b","deviceName":"v/x"}]`,
			domain.HostDevices{PCI: map[string][]string{"v/x": {"0000:60:00.0"}}}, "hostDevices[1]"},
		"nonsense": {`"hostDevices":[{"name":"a","deviceName":"v/x"}]`,
			domain.HostDevices{PCI: map[string][]string{"v/x": {"sixty"}}}, `"sixty", which is not an address`},
		"claimed": {`"gpus":[{"name":"a","claimName":"c","requestName":"r"}]`,
			domain.HostDevices{PCI: map[string][]string{"": {"0000:60:00.0"}}},
			"gpus[0].requestName: the driver of claim c has given the pod no device for its request r"},
		"not USB": {`"hostDevices":[{"name":"a","deviceName":"v/x"}]`,
			domain.HostDevices{USB: map[string][]string{"v/x": {"1-2"}}}, "not bus:device"},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(read(t, `{"domain":{"memory":{"guest":"128Mi"},"devices":{`+c.devices+`}}}`))
			in.HostDevices = c.there
			_, err := domain.Build(in)
			require.ErrorContains(t, err, c.err)
			var invalid *domain.InvalidError
			require.NotErrorAs(t, err, &invalid, "nothing in the VMI can be changed to mend it")
		})
	}
}

// TestOneDisplay: QEMU has one frame buffer in memory, and a user may want none.
func TestOneDisplay(t *testing.T) {
	there := domain.HostDevices{Mediated: map[string][]string{"v/gpu": {"u1", "u2"}}}
	for options, want := range map[string][4]string{
		``: {"on", "on", "", ""},
		`,"virtualGPUOptions":{"display":{"enabled":false}}`:                          {"", "", "off", ""},
		`,"virtualGPUOptions":{"display":{}}`:                                         {"", "", "on", "on"},
		`,"virtualGPUOptions":{"display":{"enabled":true,"ramFB":{"enabled":false}}}`: {"", "", "on", ""},
	} {
		in := input(read(t, `{"domain":{"memory":{"guest":"128Mi"},"devices":{"gpus":[{"name":"a","deviceName":"v/gpu"},
			{"name":"b","deviceName":"v/gpu"`+options+`}]}}}`))
		in.HostDevices = there
		d, err := domain.Build(in)
		require.NoError(t, err)
		a, b := d.Devices.Hostdevs[0].SubsysMDev, d.Devices.Hostdevs[1].SubsysMDev
		require.Equal(t, want, [4]string{a.Display, a.RamFB, b.Display, b.RamFB}, options)
	}
}
