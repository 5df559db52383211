package launcher

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/rpc"
)

func TestForPodNetwork(t *testing.T) {
	vmi := &v1.VirtualMachineInstance{}
	prepared := func() []*rpc.PodInterface { return []*rpc.PodInterface{{Tap: "tap0"}} }
	require.Empty(t, forPodNetwork(vmi, prepared()))

	vmi.Spec.Networks = []v1.Network{
		{Name: "lan", NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{}}},
		{Name: "outside", NetworkSource: v1.NetworkSource{Pod: &v1.PodNetwork{}}},
	}
	require.Empty(t, forPodNetwork(vmi, prepared()))

	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{{Name: "lan"}, {Name: "outside"}}
	require.Equal(t, "outside", forPodNetwork(vmi, prepared())[0].GetNetwork())
	require.Equal(t, "lan", forPodNetwork(vmi, []*rpc.PodInterface{{Network: "lan"}})[0].GetNetwork())
}
