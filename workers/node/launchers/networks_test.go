package launchers_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/internal/multus"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/launchertest"
	"github.com/virtflow/virtflow/workers/node/podnet"
)

func networks(t *testing.T, all ...*rpc.GuestNetwork) ([]podnet.Plan, error) {
	n := launchertest.NewNode(t)
	server := launchertest.NewLauncher()
	server.Wanted = func() (*rpc.NetworksResponse, error) { return &rpc.NetworksResponse{Networks: all}, nil }
	launchertest.Serve(t, n.AddPod(t, pod), server)
	return connect(t, n).Networks(context.Background())
}

func TestWhatAGuestNeeds(t *testing.T) {
	plans, err := networks(t, &rpc.GuestNetwork{
		Name: "outside\n", Binding: rpc.Binding_BINDING_MASQUERADE, Ipv4: "10.9.0.0/24", Queues: 2,
		Ports: []*rpc.PortRange{{First: 80, Last: 80}, {Udp: true, First: 1, Last: 65535}},
	})
	require.NoError(t, err)
	require.Len(t, plans, 1)
	want := podnet.PodNetwork()
	want.Network, want.IPv4, want.IPv6 = "outside", netip.MustParsePrefix("10.9.0.0/24"),
		netip.MustParsePrefix("fd10:0:2::/120")
	want.Queues, want.Ports = 2, []podnet.Ports{{First: 80, Last: 80}, {UDP: true, First: 1, Last: 65535}}
	require.Equal(t, want, plans[0].Interface)

	plans, err = networks(t, &rpc.GuestNetwork{Name: "a", Binding: rpc.Binding_BINDING_BRIDGE, Queues: 1,
		Mac: "02:00:00:00:00:07"})
	require.NoError(t, err)
	require.Equal(t, podnet.Bridge, plans[0].Binding)
	require.Equal(t, net.HardwareAddr{2, 0, 0, 0, 0, 7}, plans[0].MAC)

	plans, err = networks(t)
	require.NoError(t, err)
	require.Empty(t, plans)
}

// TestNetworkOfEachBinding: each binding that a launcher knows is one of podnet's, on the pod network or a further one.
func TestNetworkOfEachBinding(t *testing.T) {
	for value := range rpc.Binding_name {
		binding := rpc.Binding(value)
		got, err := launchers.Wanted(&rpc.GuestNetwork{Name: "a", Binding: binding, Queues: 1})
		require.NoError(t, err, binding)
		require.Equal(t, map[rpc.Binding]podnet.Binding{
			rpc.Binding_BINDING_UNSPECIFIED: "", rpc.Binding_BINDING_MASQUERADE: podnet.Masquerade,
			rpc.Binding_BINDING_BRIDGE: podnet.Bridge, rpc.Binding_BINDING_FURTHER_BRIDGE: podnet.Bridge,
			rpc.Binding_BINDING_MANAGED_TAP:         podnet.ManagedTap,
			rpc.Binding_BINDING_FURTHER_MANAGED_TAP: podnet.ManagedTap,
			rpc.Binding_BINDING_TAP:                 podnet.Tap, rpc.Binding_BINDING_FURTHER_TAP: podnet.Tap,
		}[binding], got.Binding, binding)
		require.Equal(t, strings.Contains(binding.String(), "FURTHER"), got.Suffix == multus.Suffix("a"), binding)
	}
	_, err := launchers.Wanted(&rpc.GuestNetwork{Name: "a", Binding: 99, Queues: 1})
	require.ErrorContains(t, err, "does not know the binding 99: update it")
}

// TestNetworksOfEarlierLauncher: an earlier launcher reports no networks: its guest is masqueraded on the pod network.
func TestNetworksOfEarlierLauncher(t *testing.T) {
	n := launchertest.NewNode(t)
	launchertest.Serve(t, n.AddPod(t, pod), launchertest.NewLauncher())
	plans, err := connect(t, n).Networks(context.Background())
	require.NoError(t, err)
	require.Len(t, plans, 1)
	require.Equal(t, podnet.Masquerade, plans[0].Binding)
	require.Empty(t, plans[0].Network)
}

func TestRefusesUnsupportedNetworks(t *testing.T) {
	for problem, n := range map[string]*rpc.GuestNetwork{
		"network a: \"\" is no binding": {Name: "a", Queues: 1},
		"cannot have 0 queues":          {Binding: rpc.Binding_BINDING_BRIDGE},
		"the guest's MAC":               {Binding: rpc.Binding_BINDING_BRIDGE, Queues: 1, Mac: "$(reboot)"},
		"the guest's private network":   {Binding: rpc.Binding_BINDING_MASQUERADE, Queues: 1, Ipv4: strings.Repeat("x", 1<<16)},
		"no ports from -1 to 5": {Binding: rpc.Binding_BINDING_MASQUERADE, Queues: 1,
			Ports: []*rpc.PortRange{{First: -1, Last: 5}}},
		"no ports from 1 to 65536": {Binding: rpc.Binding_BINDING_MASQUERADE, Queues: 1,
			Ports: []*rpc.PortRange{{First: 1, Last: 65536}}},
	} {
		_, err := networks(t, n)
		require.ErrorContains(t, err, problem)
		var refused *launchers.RefusedError
		require.True(t, asRefused(err, &refused))
		require.Less(t, len(err.Error()), 1200)
	}
	_, err := networks(t, make([]*rpc.GuestNetwork, 33)...)
	require.ErrorContains(t, err, "33 interfaces: a guest cannot have more than 32")
	for _, binding := range []rpc.Binding{rpc.Binding_BINDING_BRIDGE, rpc.Binding_BINDING_FURTHER_BRIDGE} {
		twice := &rpc.GuestNetwork{Name: "a", Binding: binding, Queues: 1}
		_, err = networks(t, twice, twice)
		require.ErrorContains(t, err, "network a: another interface is on it")
	}
}

// TestFurtherNetworks: the interfaces of further networks have the names that Multus was asked for.
func TestFurtherNetworks(t *testing.T) {
	plans, err := networks(t, &rpc.GuestNetwork{Name: "second", Binding: rpc.Binding_BINDING_FURTHER_BRIDGE, Queues: 1},
		&rpc.GuestNetwork{Name: "default", Binding: rpc.Binding_BINDING_MASQUERADE, Queues: 1},
		&rpc.GuestNetwork{Name: "ptp", Binding: rpc.Binding_BINDING_FURTHER_BRIDGE, Queues: 2})
	require.NoError(t, err)
	var got []string
	for _, p := range plans {
		got = append(got, p.PodInterface, p.Tap)
	}
	require.Equal(t,
		[]string{"pod16367aacb67", "tap16367aacb67", "eth0", "tap0", "pode31d7ce2712", "tape31d7ce2712"}, got)
	require.True(t, plans[1].IsOnPodNetwork())
	require.False(t, plans[0].IsOnPodNetwork())
}
