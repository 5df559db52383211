package dhcp_test

import (
	"net"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/dhcp"
)

func lease(t *testing.T) dhcp.Lease {
	t.Helper()
	mac, err := net.ParseMAC("02:00:00:00:00:01")
	require.NoError(t, err)
	return dhcp.Lease{
		Interface: "k6t-eth0", MAC: mac, Address: net.IPNet{IP: net.IPv4(10, 0, 2, 2), Mask: net.CIDRMask(24, 32)},
		Gateway: net.IPv4(10, 0, 2, 1), Server: net.IPv4(10, 0, 2, 1),
		MTU: 1450, Hostname: "vm1", DNS: []net.IP{net.IPv4(10, 212, 0, 10)},
		Search: []string{"default.svc.cluster.local", "cluster.local"},
		Options: &v1.DHCPOptions{NTPServers: []string{"192.0.2.1", "not an address"},
			PrivateOptions: []v1.DHCPPrivateOptions{{Option: 240, Value: "x"}, {Option: 6, Value: "y"}}},
	}
}

func TestDiscoverIsOffered(t *testing.T) {
	l := lease(t)
	discover, err := dhcpv4.NewDiscovery(l.MAC)
	require.NoError(t, err)
	offer, err := dhcp.Reply(l, discover)
	require.NoError(t, err)
	require.Equal(t, dhcpv4.MessageTypeOffer, offer.MessageType())
	require.Equal(t, "10.0.2.2", offer.YourIPAddr.String())
	require.Equal(t, "10.0.2.1", offer.Router()[0].String())
	require.Equal(t, "10.212.0.10", offer.DNS()[0].String())
	require.Equal(t, []string{"default.svc.cluster.local", "cluster.local"}, offer.DomainSearch().Labels)
	require.Equal(t, "vm1", offer.HostName())
	require.Equal(t, []byte{0x05, 0xaa}, offer.Options.Get(dhcpv4.OptionInterfaceMTU))
	require.Equal(t, "ffffff00", offer.SubnetMask().String())
	require.Len(t, offer.NTPServers(), 1)
	require.Equal(t, "x", string(offer.Options.Get(dhcpv4.GenericOptionCode(240))))

	request, err := dhcpv4.NewRequestFromOffer(offer)
	require.NoError(t, err)
	ack, err := dhcp.Reply(l, request)
	require.NoError(t, err)
	require.Equal(t, dhcpv4.MessageTypeAck, ack.MessageType())
}

// TestRoutes: a client that gets routes ignores the router option, and a gateway outside the guest's network is on the
// link.
func TestRoutes(t *testing.T) {
	_, far, err := net.ParseCIDR("203.0.113.0/24")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func(*dhcp.Lease)
		want   []string
	}{
		"none but the default": {func(*dhcp.Lease) {}, nil},
		"another": {func(l *dhcp.Lease) { l.Routes = []*dhcpv4.Route{{Dest: far, Router: net.IPv4(10, 0, 2, 9)}} },
			[]string{"route to 203.0.113.0/24 via 10.0.2.9", "route to 0.0.0.0/0 via 10.0.2.1"}},
		"a gateway outside": {func(l *dhcp.Lease) { l.Gateway = net.IPv4(169, 254, 1, 1).To4() },
			[]string{"route to 169.254.1.1/32 via 0.0.0.0", "route to 0.0.0.0/0 via 169.254.1.1"}},
		"no gateway": {func(l *dhcp.Lease) {
			l.Gateway, l.Routes = nil, []*dhcpv4.Route{{Dest: far, Router: net.IPv4zero}}
		},
			[]string{"route to 203.0.113.0/24 via 0.0.0.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := lease(t)
			c.change(&l)
			discover, err := dhcpv4.NewDiscovery(l.MAC)
			require.NoError(t, err)
			offer, err := dhcp.Reply(l, discover)
			require.NoError(t, err)
			var got []string
			for _, r := range offer.ClasslessStaticRoute() {
				got = append(got, r.String())
			}
			require.Equal(t, c.want, got)
			require.Equal(t, l.Gateway == nil, len(offer.Router()) == 0)
		})
	}
}

func TestIgnoresOtherClients(t *testing.T) {
	l := lease(t)
	other, err := dhcpv4.NewDiscovery(net.HardwareAddr{2, 0, 0, 0, 0, 9})
	require.NoError(t, err)
	reply, err := dhcp.Reply(l, other)
	require.NoError(t, err)
	require.Nil(t, reply)
}

func TestRefusesAnotherAddress(t *testing.T) {
	l := lease(t)
	request, err := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), dhcpv4.WithHwAddr(l.MAC),
		dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.IPv4(192, 0, 2, 7))))
	require.NoError(t, err)
	reply, err := dhcp.Reply(l, request)
	require.NoError(t, err)
	require.Equal(t, dhcpv4.MessageTypeNak, reply.MessageType())
}

func TestResolver(t *testing.T) {
	servers, servers6, search := dhcp.Resolver(
		"# x\nnameserver 10.212.0.10\nnameserver fd00::1\nsearch default.svc.cluster.local " +
			"svc.cluster.local\noptions ndots:5\n")
	require.Len(t, servers, 1)
	require.Equal(t, []net.IP{net.ParseIP("fd00::1")}, servers6)
	require.Equal(t, []string{"default.svc.cluster.local", "svc.cluster.local"}, search)
	require.Equal(t, "sub.default.svc.cluster.local", dhcp.WithSubdomain(search, "sub", "default")[0])
	require.Equal(t, search, dhcp.WithSubdomain(search, "", "default"))
}
