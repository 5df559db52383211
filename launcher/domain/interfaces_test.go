package domain_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/launcher/domain"
)

func oneInterface(t *testing.T, settings string, change func(*domain.Input)) (libvirtxml.DomainInterface, error) {
	t.Helper()
	in := input(read(t, `{"domain":{"memory":{"guest":"128Mi"},"cpu":{"cores":2,"sockets":2},"devices":{`+settings+`}},
		"networks":[{"name":"default","pod":{}}]}`))
	if change != nil {
		change(&in)
	}
	d, err := domain.Build(in)
	if err != nil {
		return libvirtxml.DomainInterface{}, err
	}
	require.Len(t, d.Devices.Interfaces, 1)
	return d.Devices.Interfaces[0], nil
}

func TestBridgedGuestHasPodsMAC(t *testing.T) {
	takesOver := func(in *domain.Input) {
		in.Interfaces["default"] = domain.Interface{Tap: "tap0", MAC: "02:00:00:00:00:07"}
	}
	d, err := oneInterface(t, `"interfaces":[{"name":"default","bridge":{}}]`, takesOver)
	require.NoError(t, err)
	require.Equal(t, "02:00:00:00:00:07", d.MAC.Address)
	d, err = oneInterface(t, `"interfaces":[{"name":"default","bridge":{},"macAddress":"DE-AD-BE-EF-00-01"}]`, takesOver)
	require.NoError(t, err)
	require.Equal(t, "de:ad:be:ef:00:01", d.MAC.Address)
}

// TestBindingPluginUsesDeviceOfPod: QEMU opens the tap that the node worker has made or found, and nothing makes one.
func TestBindingPluginUsesDeviceOfPod(t *testing.T) {
	const spec = `"interfaces":[{"name":"default","binding":{"name":"taps"}}]`
	require.NoError(t, domain.Supported(read(t, `{"domain":{"devices":{`+spec+`}}}`)))
	d, err := oneInterface(t, spec, func(in *domain.Input) {
		in.Interfaces["default"] = domain.Interface{Tap: "eth0", MAC: "02:00:00:00:00:07", MTU: 1400}
	})
	require.NoError(t, err)
	require.NotNil(t, d.Source.Ethernet)
	require.Equal(t, libvirtxml.DomainInterfaceTarget{Dev: "eth0", Managed: "no"}, *d.Target)
	require.Equal(t, "02:00:00:00:00:07", d.MAC.Address)
	require.EqualValues(t, 1400, d.MTU.Size)
}

func TestQueues(t *testing.T) {
	const one, several = `"interfaces":[{"name":"default","masquerade":{}}]`, `"networkInterfaceMultiqueue":true,`
	d, err := oneInterface(t, one, nil)
	require.NoError(t, err)
	require.Nil(t, d.Driver)
	d, err = oneInterface(t, several+one, nil)
	require.NoError(t, err)
	require.Equal(t, libvirtxml.DomainInterfaceDriver{Queues: 4}, *d.Driver, "who moves packets differs from node to node")
	d, err = oneInterface(t, several+`"interfaces":[{"name":"default","masquerade":{},"model":"e1000"}]`, nil)
	require.NoError(t, err)
	require.Nil(t, d.Driver, "an emulated card has one queue")
}

func TestPCIAddress(t *testing.T) {
	d, err := oneInterface(t, `"interfaces":[{"name":"default","masquerade":{},"pciAddress":"0000:81:1f.1"}]`, nil)
	require.NoError(t, err)
	at := d.Address.PCI
	require.Equal(t, []uint{0, 0x81, 0x1f, 1}, []uint{*at.Domain, *at.Bus, *at.Slot, *at.Function})
	for _, wrong := range []string{"0000:81:20.0", "0000:81:1f.8", "81:1f.1", "0000:81:1f.1 "} {
		_, err := oneInterface(t, `"interfaces":[{"name":"default","masquerade":{},"pciAddress":"`+wrong+`"}]`, nil)
		require.ErrorContains(t, err, "spec.domain.devices.interfaces[0].pciAddress")
	}
}

// TestConventionalDeviceHasABridge: the bus of its address is a bridge, since a port has one slot; others are ports.
func TestConventionalDeviceHasABridge(t *testing.T) {
	in := input(read(t, `{"domain":{"memory":{"guest":"128Mi"},"devices":{"interfaces":[
		{"name":"default","masquerade":{},"model":"e1000","pciAddress":"0000:02:01.0"},
		{"name":"other","bridge":{},"pciAddress":"0000:03:00.0"}]}},
		"networks":[{"name":"default","pod":{}},{"name":"other","multus":{"networkName":"other"}}]}`))
	in.Interfaces["other"] = domain.Interface{Tap: "tap1"}
	d, err := domain.Build(in)
	require.NoError(t, err)
	models := map[uint]string{}
	for _, c := range d.Devices.Controllers {
		if c.Type == "pci" && c.Index != nil {
			models[*c.Index] = c.Model
		}
	}
	require.Equal(t, "pcie-to-pci-bridge", models[2])
	delete(models, 2)
	require.NotEmpty(t, models)
	for index, model := range models {
		require.Equal(t, "pcie-root-port", model, index)
	}
	require.Contains(t, models, uint(3))

	in = input(read(t, `{"domain":{"memory":{"guest":"128Mi"},"devices":{"interfaces":[
		{"name":"default","masquerade":{},"model":"e1000","pciAddress":"0000:01:01.0"}]}},
		"networks":[{"name":"default","pod":{}}]}`))
	_, err = domain.Build(in)
	require.ErrorContains(t, err, "spec.domain.devices: a conventional PCI device has an address on bus 1")
	in.VMI.Spec.Domain.Devices.Interfaces[0].PciAddress = "0000:20:01.0"
	d, err = domain.Build(in)
	require.NoError(t, err)
	last := d.Devices.Controllers[len(d.Devices.Controllers)-1]
	require.Equal(t, []any{uint(0x20), "pcie-to-pci-bridge"}, []any{*last.Index, last.Model})
}
