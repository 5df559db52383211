package podnet

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Addresses of the pod and of another host for documentation (RFC 3849).
const podAddress6, otherAddress6 = "2001:db8::2", "2001:db8::1"

// withIPv6 gives the pod, and its neighbour, an address of the other family as well.
func (p testPod) withIPv6(t *testing.T) {
	for ns, address := range map[*os.File]string{p.NetworkNamespace: podAddress6, p.other: otherAddress6} {
		require.NoError(t, inNamespace(ns, func() error {
			link, err := netlink.LinkByName("eth0")
			require.NoError(t, err)
			return addAddress(link, address+"/64")
		}))
	}
}

// guestWithIPv6 is a guest as DHCPv6 and its router's advertisement make it.
func (p testPod) guestWithIPv6(t *testing.T) *os.File {
	guest := namespace(t)
	p.attachGuest(t, guest)
	require.NoError(t, inNamespace(guest, func() error {
		link, err := netlink.LinkByName("guest")
		require.NoError(t, err)
		require.NoError(t, addAddress(link, "fd10:0:2::2/120"))
		return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP("fd10:0:2::1"), LinkIndex: link.Attrs().Index})
	}))
	p.awaitGuest(t, guest)
	return guest
}

func TestDualStack(t *testing.T) {
	pod := newPod(t)
	pod.withIPv6(t)
	done, err := masqueraded(t).Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	require.Equal(t, netip.MustParsePrefix("10.0.2.2/24"), done.IPv4)
	require.Equal(t, netip.MustParsePrefix("fd10:0:2::2/120"), done.IPv6)
	guest := pod.guestWithIPv6(t)

	t.Run("others reach the guest by the pod's addresses and keep their own", func(t *testing.T) {
		require.Equal(t, otherAddress, dialled(t, guest, "0.0.0.0", pod.other, podAddress+":8080"))
		require.Equal(t, otherAddress6, dialled(t, guest, "::", pod.other, "["+podAddress6+"]:8080"))
	})
	t.Run("the guest reaches others with the pod's address", func(t *testing.T) {
		require.Equal(t, podAddress6, dialled(t, pod.other, "::", guest, "["+otherAddress6+"]:8080"))
	})
	t.Run("the guest reaches itself by the pod's addresses", func(t *testing.T) {
		require.Equal(t, podAddress, dialled(t, guest, "0.0.0.0", guest, podAddress+":8080"))
		require.Equal(t, podAddress6, dialled(t, guest, "::", guest, "["+podAddress6+"]:8080"))
	})
	t.Run("the guest cannot use another address", func(t *testing.T) {
		wire := packets6(t, pod.other)
		for _, from := range []string{"fd10:0:2::7", "fd10:0:2::1", podAddress6, "2001:db8::7", "::1", "::"} {
			sendUDP6(t, guest, from, 7000)
		}
		sendUDP6(t, guest, "fd10:0:2::2", 7001)
		require.Equal(t, podAddress6, wire.sourceOfPort(t, 7001, 7000))
	})
}

// TestIPv6Only: the pod has no IPv4 address at all.
func TestIPv6Only(t *testing.T) {
	pod := newPod(t)
	pod.withIPv6(t)
	require.NoError(t, inNamespace(pod.NetworkNamespace, func() error {
		link, err := netlink.LinkByName("eth0")
		require.NoError(t, err)
		return netlink.AddrDel(link, &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix(podAddress + "/24"))})
	}))
	done, err := masqueraded(t).Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	require.Equal(t, Prepared{MTU: 1400, IPv6: netip.MustParsePrefix("fd10:0:2::2/120")}, done)
}

// TestOwnNetworkAndPorts: the VMI has chosen the guest's private network, and names the ports that others reach.
func TestOwnNetworkAndPorts(t *testing.T) {
	i := PodNetwork()
	i.IPv4, i.Ports = netip.MustParsePrefix("10.0.2.0/28"), []Ports{{First: 8080, Last: 8081}}
	pod := newPod(t)
	done, err := planned(t, i).Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	require.Equal(t, netip.MustParsePrefix("10.0.2.2/28"), done.IPv4)
	guest := namespace(t)
	pod.attachGuest(t, guest)
	require.Equal(t, otherAddress, dialled(t, guest, "0.0.0.0", pod.other, podAddress+":8080"))
	require.Equal(t, otherAddress, dialled(t, guest, "0.0.0.0", pod.other, podAddress+":8081"))
	require.Equal(t, "10.0.2.1", dialled(t, guest, "0.0.0.0", pod.NetworkNamespace, "127.0.0.1:8080"))
	require.Equal(t, podAddress, dialled(t, pod.other, otherAddress, guest, otherAddress+":9090"))
	require.Equal(t, podAddress, dialled(t, guest, "0.0.0.0", guest, podAddress+":8081"))
	for ns, address := range map[*os.File]string{
		pod.other: podAddress, pod.NetworkNamespace: "127.0.0.1", guest: podAddress,
	} {
		l := listen(t, guest, "0.0.0.0:9090")
		defer l.Close()
		require.ErrorIs(t, inNamespace(ns, func() error {
			c, err := net.DialTimeout("tcp", address+":9090", deadline)
			if err == nil {
				c.Close()
			}
			return err
		}), unix.ECONNREFUSED)
		l.Close()
	}
}

type wiretap6 int

func packets6(t *testing.T, ns *os.File) wiretap6 {
	var fd int
	require.NoError(t, inNamespace(ns, func() (err error) {
		link, err := netlink.LinkByName("eth0")
		require.NoError(t, err)
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(swap(unix.ETH_P_IPV6)))
		require.NoError(t, err)
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: swap(unix.ETH_P_IPV6), Ifindex: link.Attrs().Index})
	}))
	bounded(t, fd)
	return wiretap6(fd)
}

// sourceOfPort waits for a datagram to a port, and fails for one to the forbidden port.
func (w wiretap6) sourceOfPort(t *testing.T, port, forbidden uint16) string {
	b := make([]byte, 2048)
	for {
		n, _, err := receiveFrom(int(w), b)
		require.NoError(t, err, "nothing more has come")
		if n < 48 || b[6] != unix.IPPROTO_UDP {
			continue
		}
		source, _ := netip.AddrFromSlice(b[8:24])
		switch binary.BigEndian.Uint16(b[42:]) {
		case port:
			return source.String()
		case forbidden:
			require.Fail(t, "the guest has spoken as "+source.String())
		}
	}
}

// sendUDP6 sends a datagram to the pod's neighbour by the gateway, with any source address.
func sendUDP6(t *testing.T, guest *os.File, from string, port uint16) {
	source, to := netip.MustParseAddr(from).As16(), netip.MustParseAddr(otherAddress6).As16()
	payload := binary.BigEndian.AppendUint16(nil, port)
	payload = append(binary.BigEndian.AppendUint16(payload, port), 0, 8, 0, 0)
	var sum uint32
	for _, part := range [][]byte{source[:], to[:], {0, 8, 0, unix.IPPROTO_UDP}, payload} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(payload[6:], ^uint16(sum))
	b := append([]byte{0x60, 0, 0, 0, 0, 8, unix.IPPROTO_UDP, 64}, source[:]...)
	sendFrame(t, guest, unix.ETH_P_IPV6, append(append(b, to[:]...), payload...))
}
