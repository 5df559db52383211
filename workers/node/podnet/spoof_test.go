package podnet

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestGuestSpoofsNoAddress: what a guest sends from another address than its own does not leave the pod.
func TestGuestSpoofsNoAddress(t *testing.T) {
	pod := newPod(t)
	_, err := masqueraded(t).Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	guest := namespace(t)
	pod.attachGuest(t, guest)
	pod.awaitGuest(t, guest)
	wire := packets(t, pod.other, "eth0")

	const own, port, last = "10.0.2.2", 7000, 7001
	for _, from := range []string{"10.0.2.7", "10.0.2.1", podAddress, "198.51.100.7", "127.0.0.1", "0.0.0.0"} {
		sendUDP(t, guest, netip.AddrPortFrom(netip.MustParseAddr(from), port),
			netip.AddrPortFrom(netip.MustParseAddr(otherAddress), port))
	}
	// What comes last shows that all before it has come, or never will.
	sendUDP(t, guest, netip.AddrPortFrom(netip.MustParseAddr(own), last),
		netip.AddrPortFrom(netip.MustParseAddr(otherAddress), last))
	for {
		source, to := wire.next(t)
		if to != port && to != last {
			continue // of the connection before
		}
		if to == last {
			require.Equal(t, podAddress, source.String())
			return
		}
		require.Fail(t, "the guest has spoken as "+source.String())
	}
}

// TestGuestWithoutAddressAsksForOne: DHCP comes from no address at all.
func TestGuestWithoutAddressAsksForOne(t *testing.T) {
	pod := newPod(t)
	_, err := masqueraded(t).Prepare(context.Background(), pod.Pod)
	require.NoError(t, err)
	guest := namespace(t)
	pod.attachGuest(t, guest)
	pod.awaitGuest(t, guest)
	server := listenUDP(t, pod.NetworkNamespace, dhcpServer)
	none, all := netip.IPv4Unspecified(), netip.MustParseAddr("255.255.255.255")
	sendUDP(t, guest, netip.AddrPortFrom(none, 7000), netip.AddrPortFrom(all, dhcpServer))
	sendUDP(t, guest, netip.AddrPortFrom(none, dhcpClient), netip.AddrPortFrom(all, dhcpServer))
	buffer := make([]byte, 64)
	_, from, err := receiveFrom(server, buffer)
	require.NoError(t, err)
	require.Equal(t, &unix.SockaddrInet4{Port: dhcpClient}, from, "only what is DHCP comes without an address")
}

// awaitGuest returns when the bridge forwards what the guest sends: the kernel enables a new port a moment later.
func (p testPod) awaitGuest(t *testing.T, guest *os.File) {
	require.Equal(t, podAddress, dialled(t, p.other, otherAddress, guest, otherAddress+":8080"))
}

// wiretap sees all IPv4 packets that arrive at an interface, before any rule.
type wiretap int

func packets(t *testing.T, ns *os.File, name string) wiretap {
	return wiretap(arriving(t, ns, name, unix.SOCK_DGRAM, unix.ETH_P_IP))
}

// arriving is a socket with what of a protocol arrives at an interface: frames (SOCK_RAW) or packets (SOCK_DGRAM).
func arriving(t *testing.T, ns *os.File, name string, kind int, protocol uint16) (fd int) {
	require.NoError(t, inNamespace(ns, func() (err error) {
		link, err := netlink.LinkByName(name)
		require.NoError(t, err)
		fd, err = unix.Socket(unix.AF_PACKET, kind|unix.SOCK_CLOEXEC, int(swap(protocol)))
		require.NoError(t, err)
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: swap(protocol), Ifindex: link.Attrs().Index})
	}))
	bounded(t, fd)
	return fd
}

// receiveFrom waits for the next message of a socket with a time limit, whose expiry is EAGAIN. The kernel does not
// restart such a wait after a signal, and Go's runtime preempts by signals.
func receiveFrom(fd int, b []byte) (n int, from unix.Sockaddr, err error) {
	for {
		n, from, err = unix.Recvfrom(fd, b, 0)
		if !errors.Is(err, unix.EINTR) {
			return n, from, err
		}
	}
}

// next is the source and the UDP destination port of the next packet.
func (w wiretap) next(t *testing.T) (netip.Addr, uint16) {
	b := make([]byte, 2048)
	n, _, err := receiveFrom(int(w), b)
	require.NoError(t, err, "nothing more has come")
	require.GreaterOrEqual(t, n, 28)
	source, _ := netip.AddrFromSlice(b[12:16])
	return source, binary.BigEndian.Uint16(b[22:])
}

func listenUDP(t *testing.T, ns *os.File, port int) int {
	var fd int
	require.NoError(t, inNamespace(ns, func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		return unix.Bind(fd, &unix.SockaddrInet4{Port: port})
	}))
	bounded(t, fd)
	return fd
}

func bounded(t *testing.T, fd int) {
	t.Cleanup(func() { unix.Close(fd) })
	limit := unix.NsecToTimeval(deadline.Nanoseconds())
	require.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
}

// sendUDP sends a datagram from the guest's interface to its gateway, with any source address.
func sendUDP(t *testing.T, guest *os.File, from, to netip.AddrPort) {
	sendFrame(t, guest, unix.ETH_P_IP, datagram(from.Addr(), to.Addr(), from.Port(), to.Port()))
}

func datagram(from, to netip.Addr, fromPort, toPort uint16) []byte {
	b := make([]byte, 20, 28)
	b[0], b[8], b[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(b[2:], 28)
	copy(b[12:], from.AsSlice())
	copy(b[16:], to.AsSlice())
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum+sum>>16))
	for _, word := range []uint16{fromPort, toPort, 8, 0} { // no payload, no checksum
		b = binary.BigEndian.AppendUint16(b, word)
	}
	return b
}

// sendFrame sends a packet from the guest's interface to its gateway.
func sendFrame(t *testing.T, guest *os.File, kind uint16, b []byte) {
	require.NoError(t, inNamespace(guest, func() error {
		link, err := netlink.LinkByName("guest")
		require.NoError(t, err)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		hardware := &unix.SockaddrLinklayer{Protocol: swap(kind), Ifindex: link.Attrs().Index, Halen: 6}
		copy(hardware.Addr[:], bridgeMAC)
		return unix.Sendto(fd, b, 0, hardware)
	}))
}

// swap puts a number in the network's byte order.
func swap(n uint16) uint16 { return n<<8 | n>>8 }
