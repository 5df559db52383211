package launcher

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/rpc"
)

func connected(t *testing.T, spec string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	require.NoError(t, json.Unmarshal([]byte(spec), &vmi.Spec))
	return vmi
}

func TestGuestNetworks(t *testing.T) {
	const masquerade, bridge = rpc.Binding_BINDING_MASQUERADE, rpc.Binding_BINDING_BRIDGE
	for spec, want := range map[string]*rpc.GuestNetwork{
		`{"domain":{"devices":{}}}`: nil,
		`{"domain":{"devices":{"interfaces":[{"name":"a","masquerade":{}}]}},"networks":[{"name":"a","pod":{}}]}`: {
			Name: "a", Binding: masquerade, Queues: 1},
		`{"domain":{"devices":{"interfaces":[{"name":"a","masquerade":{},"ports":[{"port":80},{"port":53,"protocol":"UDP"}]}]}},
		  "networks":[{"name":"a","pod":{"vmNetworkCIDR":"10.9.0.0/24","vmIPv6NetworkCIDR":"fd09::/120"}}]}`: {
			Name: "a", Binding: masquerade, Queues: 1, Ipv4: "10.9.0.0/24", Ipv6: "fd09::/120",
			Ports: []*rpc.PortRange{{First: 80, Last: 80}, {Udp: true, First: 53, Last: 53}}},
		`{"domain":{"devices":{"interfaces":[{"name":"a","masquerade":{},"portRanges":[{"start":80,"end":90,"protocol":"TCP"},
		  {"start":53,"end":53,"protocol":"UDP"}]}]}},"networks":[{"name":"a","pod":{}}]}`: {
			Name: "a", Binding: masquerade, Queues: 1,
			Ports: []*rpc.PortRange{{First: 80, Last: 90}, {Udp: true, First: 53, Last: 53}}},
		`{"domain":{"cpu":{"cores":4},"devices":{"networkInterfaceMultiqueue":true,"interfaces":[
		  {"name":"a","bridge":{},"macAddress":"02-00-00-00-00-07"}]}},"networks":[{"name":"a","pod":{}}]}`: {
			Name: "a", Binding: bridge, Queues: 4, Mac: "02-00-00-00-00-07"},
		`{"domain":{"devices":{"interfaces":[{"name":"a","bridge":{}}]}},"networks":[{"name":"a","multus":{"networkName":"x"}}]}`: {
			Name: "a", Binding: rpc.Binding_BINDING_FURTHER_BRIDGE, Queues: 1},
		`{"domain":{"devices":{"interfaces":[{"name":"a","bridge":{}}]}},
		  "networks":[{"name":"a","multus":{"networkName":"x","default":true}}]}`: {Name: "a", Binding: bridge, Queues: 1},
		`{"domain":{"cpu":{"cores":4},"devices":{"networkInterfaceMultiqueue":true,"interfaces":[
		  {"name":"a","bridge":{},"model":"e1000"}]}},"networks":[{"name":"a","pod":{}}]}`: {
			Name: "a", Binding: bridge, Queues: 1},
	} {
		got, err := guestNetworks(connected(t, spec))
		require.NoError(t, err, spec)
		if want == nil {
			require.Empty(t, got)
			continue
		}
		require.Len(t, got, 1, spec)
		require.True(t, proto.Equal(want, got[0]), "%s: %s", spec, got[0])
	}
	for spec, want := range map[string]rpc.Binding{
		`{"binding":{"name":"l2"}}, {"pod":{}}`:                                      rpc.Binding_BINDING_MANAGED_TAP,
		`{"binding":{"name":"l2"}}, {"multus":{"networkName":"x"}}`:                  rpc.Binding_BINDING_FURTHER_MANAGED_TAP,
		`{"binding":{"name":"taps"}}, {"multus":{"networkName":"x","default":true}}`: rpc.Binding_BINDING_TAP,
		`{"binding":{"name":"taps"}}, {"multus":{"networkName":"x"}}`:                rpc.Binding_BINDING_FURTHER_TAP,
		`{"binding":{"name":"other"}}, {"pod":{}}`:                                   rpc.Binding_BINDING_UNSPECIFIED,
	} {
		var parts [2]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte("["+spec+"]"), &parts), spec)
		vmi := &v1.VirtualMachineInstance{}
		vmi.Annotations = map[string]string{
			"attachment.virtflow.io/l2": "managedTap", "attachment.virtflow.io/taps": "tap"}
		vmi.Spec.Domain.Devices.Interfaces, vmi.Spec.Networks = []v1.Interface{{}}, []v1.Network{{}}
		require.NoError(t, json.Unmarshal(parts[0], &vmi.Spec.Domain.Devices.Interfaces[0]))
		require.NoError(t, json.Unmarshal(parts[1], &vmi.Spec.Networks[0]))
		got, err := guestNetworks(vmi)
		if want == rpc.Binding_BINDING_UNSPECIFIED {
			require.ErrorContains(t, err, `interfaces[0]: its binding plugin "other" is not supported`)
			continue
		}
		require.NoError(t, err, spec)
		require.Equal(t, want, got[0].GetBinding(), spec)
	}
	for spec, problem := range map[string]string{
		`{"domain":{"devices":{"interfaces":[{"name":"a","masquerade":{}}]}}}`:                                                        `interfaces[0]: the VMI has no network "a"`,
		`{"domain":{"devices":{"interfaces":[{"name":"a","bridge":{}}]}},"networks":[{"name":"a","resourceClaim":{}}]}`:               "interfaces[0]: the type of its network is not supported yet",
		`{"domain":{"devices":{"interfaces":[{"name":"a","masquerade":{}}]}},"networks":[{"name":"a","multus":{"networkName":"x"}}]}`: "interfaces[0]: its binding is not supported yet",
		`{"domain":{"devices":{"interfaces":[{"name":"a","passtBinding":{}}]}},"networks":[{"name":"a","pod":{}}]}`:                   "interfaces[0]: its binding is not supported yet",
	} {
		_, err := guestNetworks(connected(t, spec))
		require.ErrorContains(t, err, problem)
	}
}

// TestEarlierNodeWorker: it masquerades the pod's network as KubeVirt's defaults do, and does not name the network.
func TestEarlierNodeWorker(t *testing.T) {
	from := func() []*rpc.PodInterface { return []*rpc.PodInterface{{Tap: "tap0"}} }
	got, err := preparedInterfaces(connected(t, `{"domain":{"devices":{}}}`), from())
	require.NoError(t, err)
	require.Empty(t, got)
	got, err = preparedInterfaces(connected(t, `{"domain":{"devices":{"interfaces":[`+
		`{"name":"outside","masquerade":{}}]}},"networks":[{"name":"outside","pod":{}}]}`), from())
	require.NoError(t, err)
	require.Equal(t, "outside", got[0].GetNetwork())
	for _, other := range []string{`"bridge":{}`, `"masquerade":{},"ports":[{"port":80}]`} {
		_, err = preparedInterfaces(connected(t, `{"domain":{"devices":{"interfaces":[{"name":"outside",`+other+`}]}},`+
			`"networks":[{"name":"outside","pod":{}}]}`), from())
		require.ErrorIs(t, err, errOldWorker)
	}
	got, err = preparedInterfaces(connected(t, `{"domain":{"devices":{}}}`), []*rpc.PodInterface{{Network: "lan"}})
	require.NoError(t, err)
	require.Equal(t, "lan", got[0].GetNetwork())
}
