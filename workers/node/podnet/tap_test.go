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
)

// TestManagedTapLeavesAddressesToNetwork: the guest takes the pod's place on the pod network, and its requests for an
// address reach that network. It can use no other address than the pod's.
func TestManagedTapLeavesAddressesToNetwork(t *testing.T) {
	pod := bridgedPod(t)
	mac := pod.mac(t, "eth0")
	p := planned(t, Interface{Binding: ManagedTap, Queues: 1})
	for range 2 {
		done, err := p.Prepare(context.Background(), pod.Pod)
		require.NoError(t, err)
		require.Equal(t, Prepared{MTU: 1400, MAC: mac}, done)
	}
	guest := pod.bridgedGuest(t, mac)
	wire := frames(t, pod.other, "eth0")
	ip, all := netip.MustParseAddr, netip.MustParseAddr("255.255.255.255")
	for name, f := range map[string][]byte{
		"its own IP":         ethernet(mac, unix.ETH_P_IP, datagram(ip(podAddress), ip(otherAddress), 7000, 7000)),
		"its own ARP":        ethernet(mac, unix.ETH_P_ARP, arpReply(mac, ip(podAddress))),
		"whether it is free": ethernet(mac, unix.ETH_P_ARP, arpReply(mac, ip("0.0.0.0"))),
		"DHCP without an IP": ethernet(mac, unix.ETH_P_IP, datagram(ip("0.0.0.0"), all, dhcpClient, dhcpServer)),
		"DHCP renewal":       ethernet(mac, unix.ETH_P_IP, datagram(ip(podAddress), all, dhcpClient, dhcpServer)),
	} {
		sendRaw(t, guest, f)
		require.Equal(t, f[6:], wire.next(t)[6:len(f)], name)
	}
	for name, f := range map[string][]byte{
		"another's IP":        ethernet(mac, unix.ETH_P_IP, datagram(ip("192.0.2.7"), ip(otherAddress), 7000, 7000)),
		"another's IP by ARP": ethernet(mac, unix.ETH_P_ARP, arpReply(mac, ip(otherAddress))),
		"another's MAC": ethernet(net.HardwareAddr{2, 0, 0, 0, 0, 0x66}, unix.ETH_P_IP,
			datagram(ip(podAddress), ip(otherAddress), 7000, 7000)),
		"DHCP answers": ethernet(mac, unix.ETH_P_IP, datagram(ip(podAddress), all, dhcpServer, dhcpClient)),
		"IPv6":         ethernet(mac, unix.ETH_P_IPV6, append([]byte{0x60}, make([]byte, 39)...)),
	} {
		sendRaw(t, guest, f)
		last := ethernet(mac, unix.ETH_P_IP, datagram(ip(podAddress), ip(otherAddress), 7001, 7001))
		sendRaw(t, guest, last)
		require.Equal(t, last[6:], wire.next(t)[6:len(last)], name)
	}
}

// TestManagedTapOnFurtherNetwork: an address of the pod there is not handed out, and restricts nothing.
func TestManagedTapOnFurtherNetwork(t *testing.T) {
	pod := newFurtherPod(t, furtherAddress+"/24")
	pod.plan = planned(t, Interface{Binding: ManagedTap, Queues: 1, Suffix: pod.plan.Suffix, Number: 1})
	mac := pod.mac(t, pod.plan.PodInterface)
	done, err := pod.plan.Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	require.Equal(t, Prepared{MTU: 1400, MAC: mac}, done)
	guest := pod.guest(t, mac)
	wire := frames(t, pod.neighbour, "net1")
	for _, from := range []string{"198.51.100.7", "0.0.0.0"} {
		f := ethernet(mac, unix.ETH_P_IP, datagram(netip.MustParseAddr(from), netip.MustParseAddr(furtherNeighbor),
			dhcpClient, dhcpServer))
		sendRaw(t, guest, f)
		require.Equal(t, f[6:], wire.next(t)[6:len(f)])
	}
}

// addLink makes a link in the pod's network namespace.
func addLink(t *testing.T, ns *os.File, link netlink.Link) {
	require.NoError(t, inNamespace(ns, func() error { return netlink.LinkAdd(link) }))
}

// TestFindsTapOfPlugin: by KubeVirt's name for the tap, or as the pod's interface itself. Nothing is changed.
func TestFindsTapOfPlugin(t *testing.T) {
	tap := func(name string, mode netlink.TuntapMode) *netlink.Tuntap {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = name
		return &netlink.Tuntap{LinkAttrs: attrs, Mode: mode, Owner: launcherUser, Group: launcherUser}
	}
	for name, c := range map[string]struct {
		make  func(t *testing.T) Pod
		tap   string
		fails string
	}{
		"the pod's interface": {tap: "eth0", make: func(t *testing.T) Pod {
			ns := namespace(t)
			addLink(t, ns, tap("eth0", netlink.TUNTAP_MODE_TAP))
			return Pod{NetworkNamespace: ns}
		}},
		"beside the pod's interface": {tap: "tap0", make: func(t *testing.T) Pod {
			pod := newPod(t)
			addLink(t, pod.NetworkNamespace, tap("tap0", netlink.TUNTAP_MODE_TAP))
			return pod.Pod
		}},
		"none": {fails: "eth0 is a veth: the binding plugin's network must make a tap device tap0, or eth0 itself as one",
			make: func(t *testing.T) Pod { return newPod(t).Pod }},
		"another user's": {fails: "the tap device eth0 is of user 1000: the binding plugin's network must make it for user 107",
			make: func(t *testing.T) Pod {
				ns, of := namespace(t), tap("eth0", netlink.TUNTAP_MODE_TAP)
				of.Owner, of.Group = 1000, 1000
				addLink(t, ns, of)
				return Pod{NetworkNamespace: ns}
			}},
		"a tun device": {fails: "eth0 is a tun device", make: func(t *testing.T) Pod {
			ns := namespace(t)
			addLink(t, ns, tap("eth0", netlink.TUNTAP_MODE_TUN))
			return Pod{NetworkNamespace: ns}
		}},
		"no interface": {fails: "pod link (eth0) is missing",
			make: func(t *testing.T) Pod { return Pod{NetworkNamespace: namespace(t)} }},
	} {
		t.Run(name, func(t *testing.T) {
			pod := c.make(t)
			p := planned(t, Interface{Binding: Tap, Queues: 1})
			require.Empty(t, p.Bridge)
			done, err := p.Prepare(context.Background(), pod)
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.tap, done.Tap)
			require.NotZero(t, done.MTU)
			require.Equal(t, testPod{Pod: pod}.mac(t, "eth0"), done.MAC)
			require.NoError(t, inNamespace(pod.NetworkNamespace, func() error {
				_, err := netlink.LinkByName("k6t-eth0")
				require.ErrorAs(t, err, &netlink.LinkNotFoundError{})
				return nil
			}))
			_, err = p.DialGuest(context.Background(), pod, nil, "tcp", 80)
			require.ErrorIs(t, err, errTap)
		})
	}
}
