package podnet

import (
	"context"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/internal/multus"
)

// The addresses of the guest and of another host on a network beside the pod's own (RFC 5737).
const (
	furtherAddress  = "198.51.100.2"
	furtherNeighbor = "198.51.100.1"
)

// furtherPod has an interface on another network as well, with that address ("": the network gives none), and a
// masqueraded guest on its own.
type furtherPod struct {
	testPod
	plan      Plan
	neighbour *os.File
}

func newFurtherPod(t *testing.T, address string) furtherPod {
	p := furtherPod{testPod: newPod(t), neighbour: namespace(t)}
	p.plan = planned(t, Interface{Binding: Bridge, Queues: 1, Suffix: multus.Suffix("second"), Number: 1})
	p.veth(t, p.plan.PodInterface, address, p.neighbour, "net1", furtherNeighbor+"/24")
	_, err := masqueraded(t).Prepare(context.Background(), p.Pod)
	require.NoError(t, err)
	return p
}

// guest puts a namespace in the place of the tap, with that MAC.
func (p furtherPod) guest(t *testing.T, mac net.HardwareAddr) *os.File {
	guest := namespace(t)
	require.NoError(t, inNamespace(p.NetworkNamespace, func() error {
		tap, err := netlink.LinkByName(p.plan.Tap)
		require.NoError(t, err)
		return netlink.LinkDel(tap)
	}))
	p.veth(t, p.plan.Tap, "", guest, "guest", furtherAddress+"/24")
	require.NoError(t, inNamespace(p.NetworkNamespace, func() error {
		port, err := netlink.LinkByName(p.plan.Tap)
		require.NoError(t, err)
		bridge, err := netlink.LinkByName(p.plan.Bridge)
		require.NoError(t, err)
		return netlink.LinkSetMaster(port, bridge)
	}))
	require.NoError(t, inNamespace(guest, func() error {
		link, err := netlink.LinkByName("guest")
		require.NoError(t, err)
		return netlink.LinkSetHardwareAddr(link, mac)
	}))
	require.Equal(t, furtherAddress, dialled(t, p.neighbour, furtherNeighbor, guest, furtherNeighbor+":8080"))
	return guest
}

// TestFurtherNetwork: a further network is prepared under KubeVirt's names, repeatedly, with or without addresses, and
// the pod network stays as it is.
func TestFurtherNetwork(t *testing.T) {
	for address, want := range map[string]Prepared{
		"": {MTU: 1400},
		furtherAddress + "/24": {MTU: 1400, IPv4: netip.MustParsePrefix(furtherAddress + "/24"),
			Server: netip.MustParseAddr("169.254.75.11")},
	} {
		p := newFurtherPod(t, address)
		require.Equal(t, []string{"pod16367aacb67", "k6t-16367aacb67", "tap16367aacb67", "16367aacb67-nic"},
			[]string{p.plan.PodInterface, p.plan.Bridge, p.plan.Tap, p.plan.nic()})
		want.MAC = p.mac(t, p.plan.PodInterface)
		own := p.look(t)
		for range 2 {
			done, err := p.plan.Prepare(context.Background(), p.Pod)
			require.NoError(t, err)
			require.Equal(t, want, done)
		}
		require.Equal(t, own, p.look(t))
		guest := p.guest(t, want.MAC)
		require.Equal(t, furtherNeighbor,
			dialled(t, guest, "0.0.0.0", p.neighbour, furtherAddress+":8080"), "others reach the guest")
	}
}

// TestGuestBesidePodNetworkCannotSpoofMAC: IP addresses are between the guest and that network.
func TestGuestBesidePodNetworkCannotSpoofMAC(t *testing.T) {
	ip := netip.MustParseAddr
	evil := net.HardwareAddr{2, 0, 0, 0, 0, 0x66}
	for _, address := range []string{"", furtherAddress + "/24"} {
		p := newFurtherPod(t, address)
		done, err := p.plan.Prepare(context.Background(), p.Pod)
		require.NoError(t, err)
		guest := p.guest(t, done.MAC)
		wire := frames(t, p.neighbour, "net1")
		to := ip(furtherNeighbor)
		anothers := ethernet(done.MAC, unix.ETH_P_IP, datagram(ip("198.51.100.7"), to, 7000, 7000))
		sendRaw(t, guest, anothers)
		require.Equal(t, anothers[6:], wire.next(t)[6:len(anothers)], "addresses are not the pod's affair")
		dropped := map[string][]byte{
			"another's MAC":        ethernet(evil, unix.ETH_P_IP, datagram(ip(furtherAddress), to, 7000, 7000)),
			"another's MAC by ARP": ethernet(done.MAC, unix.ETH_P_ARP, arpReply(evil, ip(furtherAddress))),
		}
		for name, f := range dropped {
			sendRaw(t, guest, f)
			last := ethernet(done.MAC, unix.ETH_P_IP, datagram(ip(furtherAddress), to, 7001, 7001))
			sendRaw(t, guest, last)
			require.Equal(t, last[6:], wire.next(t)[6:len(last)], name)
		}
	}
}

// TestPodForwardsNothingBetweenNetworks: it forwards for its masqueraded guest, and would for any host that sends
// it something, also as a question for an address.
func TestPodForwardsNothingBetweenNetworks(t *testing.T) {
	ip := netip.MustParseAddr
	for _, address := range []string{"", furtherAddress + "/24"} {
		p := newFurtherPod(t, address)
		done, err := p.plan.Prepare(context.Background(), p.Pod)
		require.NoError(t, err)
		require.NoError(t, inNamespace(p.NetworkNamespace, func() error {
			return ensureSysctls([]sysctl{
				{"ipv4/conf/all/rp_filter", "0"}, {"ipv4/conf/" + p.plan.Bridge + "/rp_filter", "0"}})
		}))
		guest := p.guest(t, done.MAC)
		wire := packets(t, p.other, "eth0")
		own := ethernet(p.mac(t, "eth0"), unix.ETH_P_IP, datagram(ip(podAddress), ip(otherAddress), 7000, 7001))
		through := func(from, to uint16) []byte {
			f := ethernet(done.MAC, unix.ETH_P_IP, datagram(ip(furtherAddress), ip(otherAddress), from, to))
			copy(f, p.mac(t, p.plan.Bridge))
			return f
		}
		for _, f := range [][]byte{through(7000, 7000), through(dhcpClient, dhcpServer)} {
			sendRaw(t, guest, f)
			send(t, p.NetworkNamespace, "eth0", own)
			from, port := wire.next(t)
			require.Equal(t, ip(podAddress), from)
			require.Equal(t, uint16(7001), port)
		}

		require.NoError(t, inNamespace(p.NetworkNamespace, func() error {
			open := p.plan.guard(done.MAC, done.IPv4)
			require.Equal(t, "own", open.chains[len(open.chains)-1].name)
			open.chains = open.chains[:len(open.chains)-1]
			return applyRules(open)
		}))
		sendRaw(t, guest, through(7000, 7000))
		from, port := wire.next(t)
		require.Equal(t, ip(furtherAddress), from, "without that rule it does")
		require.Equal(t, uint16(7000), port)
	}
}

// TestPodSendsNoIPv6OnFurtherNetwork: the kernel does by itself on each link that goes up, and has an address
// for that.
func TestPodSendsNoIPv6OnFurtherNetwork(t *testing.T) {
	for _, address := range []string{"", furtherAddress + "/24"} {
		p := newFurtherPod(t, address)
		_, err := p.plan.Prepare(context.Background(), p.Pod)
		require.NoError(t, err)
		require.NoError(t, inNamespace(p.NetworkNamespace, func() error {
			for _, name := range []string{p.plan.Bridge, p.plan.nic(), p.plan.Tap} {
				link, err := netlink.LinkByName(name)
				require.NoError(t, err)
				known, err := netlink.AddrList(link, netlink.FAMILY_V6)
				require.NoError(t, err)
				require.Empty(t, known, name)
			}
			return nil
		}))
	}
}

func TestFurtherNetworkGuardRules(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	p := planned(t, Interface{Binding: Bridge, Queues: 1, Suffix: "16367aacb67", Number: 2})
	require.Equal(t, map[string][]string{
		"guard": {
			`iifname "tap16367aacb67" ether saddr != 02:00:00:00:00:07 drop`,
			`iifname "tap16367aacb67" ether type arp arp saddr ether != 02:00:00:00:00:07 drop`,
		},
		"answers": {`oifname "16367aacb67-nic" drop`},
		"own":     {`iifname "tap16367aacb67" drop`, `iifname "16367aacb67-nic" drop`},
	}, read(p.guard(mac, netip.Prefix{})))
	given := p.guard(mac, netip.MustParsePrefix(furtherAddress+"/24"))
	require.Equal(t, "virtflow-16367aacb67", given.name, "each interface has a table of its own")
	require.Equal(t, []string{
		`iifname "tap16367aacb67" ether type arp accept`,
		`iifname "tap16367aacb67" ether type ip ip daddr 169.254.75.12 udp sport 68 udp dport 67 accept`,
		`iifname "tap16367aacb67" ether type ip ip daddr 255.255.255.255 udp sport 68 udp dport 67 accept`,
		`iifname "tap16367aacb67" drop`, `iifname "16367aacb67-nic" drop`,
	}, read(given)["own"])
	require.Equal(t, []string{
		`iifname "tap16367aacb67" ether saddr != 02:00:00:00:00:07 drop`,
		`iifname "tap16367aacb67" ether type arp arp saddr ether != 02:00:00:00:00:07 drop`,
		`iifname "tap16367aacb67" ether type ip ip saddr 198.51.100.2 ip daddr 169.254.75.12 ` +
			`udp sport 68 udp dport 67 receive`,
	}, read(given)["guard"])
}
