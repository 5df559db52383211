package podnet

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// farNetwork is one that the pod has a route to.
const farNetwork = "203.0.113.0/24"

// bridgedPod is a pod with a default route by its neighbour, and another route.
func bridgedPod(t *testing.T) testPod {
	pod := newPod(t)
	require.NoError(t, inNamespace(pod.NetworkNamespace, func() error {
		link, err := netlink.LinkByName("eth0")
		require.NoError(t, err)
		require.NoError(t, netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(otherAddress)}))
		return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK,
			Dst: ipNet(netip.MustParsePrefix(farNetwork))})
	}))
	return pod
}

func bridged(t *testing.T) Plan { return planned(t, Interface{Binding: Bridge, Queues: 1}) }

// bridgedGuest takes the pod's place behind the tap's bridge: its port has the tap's name, so that the guard is its
// own.
func (p testPod) bridgedGuest(t *testing.T, mac net.HardwareAddr) *os.File {
	guest := namespace(t)
	require.NoError(t, inNamespace(p.NetworkNamespace, func() error {
		tap, err := netlink.LinkByName("tap0")
		require.NoError(t, err)
		return netlink.LinkDel(tap)
	}))
	p.veth(t, "tap0", "", guest, "guest", podAddress+"/24")
	require.NoError(t, inNamespace(p.NetworkNamespace, func() error {
		port, err := netlink.LinkByName("tap0")
		require.NoError(t, err)
		bridge, err := netlink.LinkByName("k6t-eth0")
		require.NoError(t, err)
		return netlink.LinkSetMaster(port, bridge)
	}))
	require.NoError(t, inNamespace(guest, func() error {
		link, err := netlink.LinkByName("guest")
		require.NoError(t, err)
		return netlink.LinkSetHardwareAddr(link, mac)
	}))
	require.Equal(t, podAddress, dialled(t, p.other, otherAddress, guest, otherAddress+":8080"))
	return guest
}

func (p testPod) mac(t *testing.T, name string) (mac net.HardwareAddr) {
	require.NoError(t, inNamespace(p.NetworkNamespace, func() error {
		link, err := netlink.LinkByName(name)
		require.NoError(t, err)
		mac = link.Attrs().HardwareAddr
		return nil
	}))
	return mac
}

// TestBridgedGuestHasPodsIdentity: a repeated preparation finds the same network, wherever the node worker stopped
// before.
func TestBridgedGuestHasPodsIdentity(t *testing.T) {
	for name, begun := range map[string]func(t *testing.T, p Plan, links *netlink.Handle, nic, bridge netlink.Link){
		"at once": func(*testing.T, Plan, *netlink.Handle, netlink.Link, netlink.Link) {},
		"after everything was kept": func(t *testing.T, p Plan, links *netlink.Handle, nic, bridge netlink.Link) {
			require.NoError(t, p.keep(links, nic, bridge))
		},
		"after the link went down": func(t *testing.T, p Plan, links *netlink.Handle, nic, bridge netlink.Link) {
			require.NoError(t, p.keep(links, nic, bridge))
			require.NoError(t, links.LinkSetDown(nic))
		},
		"after the link was renamed": func(t *testing.T, p Plan, links *netlink.Handle, nic, bridge netlink.Link) {
			require.NoError(t, p.keep(links, nic, bridge))
			require.NoError(t, links.LinkSetDown(nic))
			require.NoError(t, links.LinkSetName(nic, p.nic()))
		},
		"after it was replaced": func(t *testing.T, p Plan, links *netlink.Handle, _, bridge netlink.Link) {
			_, err := p.takeNIC(links, bridge)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := bridgedPod(t)
			mac := pod.mac(t, "eth0")
			p := bridged(t)
			require.NoError(t, inNamespace(pod.NetworkNamespace, func() error {
				links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
				require.NoError(t, err)
				defer links.Close()
				nic, err := links.LinkByName("eth0")
				require.NoError(t, err)
				bridge, err := ensureBridge(links, p.Bridge, bridgeMAC)
				require.NoError(t, err)
				begun(t, p, links, nic, bridge)
				return nil
			}))
			want := Prepared{
				MTU: 1400, MAC: mac, IPv4: netip.MustParsePrefix(podAddress + "/24"),
				Gateway: netip.MustParseAddr(otherAddress), Server: netip.MustParseAddr("169.254.75.10"),
				Routes: []Route{{Destination: netip.MustParsePrefix(farNetwork)}},
			}
			for range 2 {
				done, err := p.Prepare(context.Background(), pod.Pod)
				require.NoError(t, err)
				require.Equal(t, want, done)
			}
			require.NotEqual(t, mac, pod.mac(t, "eth0-nic"))
			require.Equal(t, mac, pod.mac(t, "eth0"), "who asks for the pod's interface finds what it had")
		})
	}
}

func TestTrafficOfABridgedGuest(t *testing.T) {
	pod := bridgedPod(t)
	done, err := bridged(t).Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	guest := pod.bridgedGuest(t, done.MAC)
	require.Equal(t, otherAddress, dialled(t, guest, "0.0.0.0", pod.other, podAddress+":8080"),
		"others reach the guest by the pod's address")

	// The neighbour stands for the node here.
	l := listen(t, guest, "0.0.0.0:8081")
	defer l.Close()
	conn, err := bridged(t).DialGuest(context.Background(), pod.Pod, pod.other, "tcp", 8081)
	require.NoError(t, err)
	answered, err := l.Accept()
	require.NoError(t, err)
	_, err = answered.Write([]byte("hello"))
	require.NoError(t, err)
	answered.Close()
	said, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "hello", string(said))
	conn.Close()
	_, err = bridged(t).DialGuest(context.Background(), pod.Pod, pod.other, "tcp", 8082)
	require.ErrorIs(t, err, unix.ECONNREFUSED)

	var packets net.PacketConn
	require.NoError(t, inNamespace(guest, func() (err error) {
		packets, err = net.ListenPacket("udp", "0.0.0.0:5353")
		return err
	}))
	defer packets.Close()
	conn, err = bridged(t).DialGuest(context.Background(), pod.Pod, pod.other, "udp", 5353)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("ask"))
	require.NoError(t, err)
	b := make([]byte, 8)
	for _, want := range []string{"", "ask"} {
		require.NoError(t, packets.SetReadDeadline(time.Now().Add(deadline)))
		n, _, err := packets.ReadFrom(b)
		require.NoError(t, err)
		require.Equal(t, want, string(b[:n]))
	}
}

// TestBridgedGuestCannotSpoof: neither by IP, nor by MAC, nor by ARP, nor by a protocol without a rule
// an address of.
func TestBridgedGuestCannotSpoof(t *testing.T) {
	pod := bridgedPod(t)
	done, err := bridged(t).Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	guest := pod.bridgedGuest(t, done.MAC)
	wire := frames(t, pod.other, "eth0")
	evil := net.HardwareAddr{2, 0, 0, 0, 0, 0x66}
	ip := netip.MustParseAddr

	for name, f := range map[string][]byte{
		"another's IP": ethernet(done.MAC, unix.ETH_P_IP,
			datagram(ip("192.0.2.7"), ip(otherAddress), 7000, 7000)),
		"no IP but not for DHCP": ethernet(done.MAC, unix.ETH_P_IP,
			datagram(ip("0.0.0.0"), ip(otherAddress), 7000, 7000)),
		"another's MAC": ethernet(evil, unix.ETH_P_IP,
			datagram(ip(podAddress), ip(otherAddress), 7000, 7000)),
		"another's IP by ARP":  ethernet(done.MAC, unix.ETH_P_ARP, arpReply(done.MAC, ip(otherAddress))),
		"another's MAC by ARP": ethernet(done.MAC, unix.ETH_P_ARP, arpReply(evil, ip(podAddress))),
		"DHCP is not for the network": ethernet(done.MAC, unix.ETH_P_IP,
			datagram(ip("0.0.0.0"), ip("255.255.255.255"), 68, 67)),
		"no DHCP for others": ethernet(done.MAC, unix.ETH_P_IP,
			datagram(ip(podAddress), ip("255.255.255.255"), 67, 68)),
		"IPv6":                ethernet(done.MAC, unix.ETH_P_IPV6, append([]byte{0x60}, make([]byte, 39)...)),
		"an unknown protocol": ethernet(done.MAC, 0x88b5, make([]byte, 46)),
		"another network by its tag": ethernet(done.MAC, unix.ETH_P_8021Q,
			append([]byte{0, 5, 8, 0}, datagram(ip(podAddress), ip(otherAddress), 7000, 7000)...)),
	} {
		sendRaw(t, guest, f)
		last := ethernet(done.MAC, unix.ETH_P_IP, datagram(ip(podAddress), ip(otherAddress), 7001, 7001))
		sendRaw(t, guest, last)
		require.Equal(t, last[6:], wire.next(t)[6:len(last)], name)
	}
	for name, f := range map[string][]byte{
		"its own IP":         ethernet(done.MAC, unix.ETH_P_IP, datagram(ip(podAddress), ip(otherAddress), 7000, 7000)),
		"its own ARP":        ethernet(done.MAC, unix.ETH_P_ARP, arpReply(done.MAC, ip(podAddress))),
		"whether it is free": ethernet(done.MAC, unix.ETH_P_ARP, arpReply(done.MAC, ip("0.0.0.0"))),
	} {
		sendRaw(t, guest, f)
		require.Equal(t, f[6:], wire.next(t)[6:len(f)], name)
	}
}

// TestBridgedGuestGetsAddress: only the server here receives the request.
func TestBridgedGuestGetsAddress(t *testing.T) {
	pod := bridgedPod(t)
	done, err := bridged(t).Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	guest := pod.bridgedGuest(t, done.MAC)
	server := listenUDP(t, pod.NetworkNamespace, dhcpServer)
	f := ethernet(done.MAC, unix.ETH_P_IP, datagram(netip.IPv4Unspecified(), netip.MustParseAddr("255.255.255.255"),
		dhcpClient, dhcpServer))
	sendRaw(t, guest, f)
	_, from, err := receiveFrom(server, make([]byte, 64))
	require.NoError(t, err)
	require.Equal(t, &unix.SockaddrInet4{Port: dhcpClient}, from)
}

// TestBridgedGuestRenewsLease: it asks the server by its address, and everybody where that does not answer. Either
// way the server sees the guest's address, and its answer arrives.
func TestBridgedGuestRenewsLease(t *testing.T) {
	pod := bridgedPod(t)
	p := bridged(t)
	require.NoError(t, inNamespace(pod.NetworkNamespace, func() error { // as on a node that is strict
		return ensureSysctls([]sysctl{{"ipv4/conf/all/rp_filter", "1"}})
	}))
	var done Prepared
	for range 2 {
		var err error
		done, err = p.Prepare(context.Background(), pod.Pod)
		require.NoError(t, err)
	}
	guest := pod.bridgedGuest(t, done.MAC)
	require.NoError(t, inNamespace(guest, func() error {
		return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(otherAddress)})
	}))
	server := listenUDP(t, pod.NetworkNamespace, dhcpServer)
	require.NoError(t, unix.BindToDevice(server, p.Bridge)) // as the launcher does
	require.NoError(t, unix.SetsockoptInt(server, unix.SOL_SOCKET, unix.SO_BROADCAST, 1))
	client := listenUDP(t, guest, dhcpClient)
	require.NoError(t, unix.SetsockoptInt(client, unix.SOL_SOCKET, unix.SO_BROADCAST, 1))
	require.NoError(t, unix.BindToDevice(client, "guest"))
	for name, to := range map[string]netip.Addr{
		"to the server": done.Server, "to everybody": netip.MustParseAddr("255.255.255.255"),
	} {
		b := make([]byte, 64)
		require.NoError(t, unix.Sendto(client, []byte(name), 0, &unix.SockaddrInet4{Port: dhcpServer, Addr: to.As4()}))
		n, from, err := receiveFrom(server, b)
		require.NoError(t, err, name)
		require.Equal(t, name, string(b[:n]))
		require.Equal(t, &unix.SockaddrInet4{Port: dhcpClient, Addr: netip.MustParseAddr(podAddress).As4()}, from)
		require.NoError(t, unix.Sendto(server, []byte("answer"), 0, from))
		n, from, err = receiveFrom(client, b)
		require.NoError(t, err, name)
		require.Equal(t, "answer", string(b[:n]))
		require.Equal(t, &unix.SockaddrInet4{Port: dhcpServer, Addr: done.Server.As4()}, from)
	}
}

// TestPodReceivesOnlyDHCPOfBridgedGuest: nothing else that its guest or a neighbour sends arrives at what listens
// in the pod, by whatever address and MAC.
func TestPodReceivesOnlyDHCPOfBridgedGuest(t *testing.T) {
	pod := bridgedPod(t)
	p := bridged(t)
	done, err := p.Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	guest := pod.bridgedGuest(t, done.MAC)
	bridge, all := bridgeMAC, netip.MustParseAddr("255.255.255.255")
	listener, server := listenUDP(t, pod.NetworkNamespace, 7000), listenUDP(t, pod.NetworkNamespace, dhcpServer)
	own, other := netip.MustParseAddr(podAddress), netip.MustParseAddr(otherAddress)
	for _, to := range []netip.Addr{done.Server, own, all} {
		f := ethernet(done.MAC, unix.ETH_P_IP, datagram(own, to, 7000, 7000))
		sendRaw(t, guest, append(append(net.HardwareAddr{}, bridge...), f[6:]...))
		sendRaw(t, guest, f)
		f = ethernet(pod.mac(t, "eth0-nic"), unix.ETH_P_IP, datagram(other, to, 7000, 7000))
		send(t, pod.other, "eth0", append(append(net.HardwareAddr{}, bridge...), f[6:]...))
		send(t, pod.other, "eth0", f)
	}
	sendRaw(t, guest, ethernet(done.MAC, unix.ETH_P_IP, datagram(own, all, dhcpClient, dhcpServer)))
	_, _, err = receiveFrom(server, make([]byte, 64))
	require.NoError(t, err, "everything before it has arrived by now")
	_, from, err := unix.Recvfrom(listener, make([]byte, 64), unix.MSG_DONTWAIT)
	require.ErrorIs(t, err, unix.EAGAIN, "%v is received", from)
}

// TestDHCPStaysInThePod: the pod receives no request of other hosts on the network, and these receive no answer to the
// guest.
func TestDHCPStaysInThePod(t *testing.T) {
	pod := bridgedPod(t)
	done, err := bridged(t).Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	guest := pod.bridgedGuest(t, done.MAC)
	server := listenUDP(t, pod.NetworkNamespace, dhcpServer)
	wire := frames(t, pod.other, "eth0")
	all, none := netip.MustParseAddr("255.255.255.255"), netip.IPv4Unspecified()
	request := func(mac net.HardwareAddr) []byte {
		return ethernet(mac, unix.ETH_P_IP, datagram(none, all, dhcpClient, dhcpServer))
	}
	send(t, pod.other, "eth0", request(net.HardwareAddr{2, 0, 0, 0, 0, 0x66}))
	require.NoError(t, unix.SetsockoptTimeval(server, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 300_000}))
	_, _, err = receiveFrom(server, make([]byte, 64))
	require.ErrorIs(t, err, unix.EAGAIN, "a neighbour's request is received")

	limit := unix.NsecToTimeval(deadline.Nanoseconds())
	require.NoError(t, unix.SetsockoptTimeval(server, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
	sendRaw(t, guest, request(done.MAC))
	_, _, err = receiveFrom(server, make([]byte, 64))
	require.NoError(t, err)
	send(t, pod.NetworkNamespace, "k6t-eth0", ethernet(pod.mac(t, "k6t-eth0"), unix.ETH_P_IP,
		datagram(done.Server, all, dhcpServer, dhcpClient)))
	last := ethernet(done.MAC, unix.ETH_P_IP,
		datagram(netip.MustParseAddr(podAddress), netip.MustParseAddr(otherAddress), 7001, 7001))
	sendRaw(t, guest, last)
	require.Equal(t, last[6:], wire.next(t)[6:len(last)], "the answer is for the guest only")
}

// TestBridgeNeedsIPv4: without it there is no rule for what the guest may send.
func TestBridgeNeedsIPv4(t *testing.T) {
	pod := testPod{Pod: Pod{NetworkNamespace: namespace(t)}, other: namespace(t)}
	pod.veth(t, "eth0", "", pod.other, "eth0", otherAddress+"/24")
	for range 2 {
		_, err := bridged(t).Prepare(context.Background(), pod.Pod)
		require.ErrorContains(t, err, "the pod has no IPv4 address")
	}
}

// frames are those that arrive at an interface, but for what the neighbour itself sends and IPv6's own.
func frames(t *testing.T, ns *os.File, name string) wiretapFrames {
	return wiretapFrames(arriving(t, ns, name, unix.SOCK_RAW, unix.ETH_P_ALL))
}

type wiretapFrames int

func (w wiretapFrames) next(t *testing.T) []byte {
	b := make([]byte, 2048)
	for {
		n, from, err := receiveFrom(int(w), b)
		require.NoError(t, err, "nothing more has come")
		link := from.(*unix.SockaddrLinklayer)
		if link.Pkttype == unix.PACKET_OUTGOING || !marked(b[:n]) {
			continue
		}
		return b[:n]
	}
}

// marked reports whether a frame is one of the test's: these all go to the broadcast address.
func marked(f []byte) bool { return f[0] == 0xff && f[1] == 0xff }

func ethernet(from net.HardwareAddr, kind uint16, payload []byte) []byte {
	f := append(net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, from...)
	f = append(f, byte(kind>>8), byte(kind))
	return append(f, payload...)
}

func arpReply(mac net.HardwareAddr, ip netip.Addr) []byte {
	b := append([]byte{0, 1, 8, 0, 6, 4, 0, 2}, mac...)
	b = append(append(b, ip.AsSlice()...), make([]byte, 6)...)
	return append(b, netip.MustParseAddr(otherAddress).AsSlice()...)
}

func sendRaw(t *testing.T, guest *os.File, frame []byte) { send(t, guest, "guest", frame) }

// send puts a frame on a link of a network namespace.
func send(t *testing.T, ns *os.File, name string, frame []byte) {
	require.NoError(t, inNamespace(ns, func() error {
		link, err := netlink.LinkByName(name)
		require.NoError(t, err)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index})
	}))
}
