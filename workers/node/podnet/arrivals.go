package podnet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// arrivals sees what begins a connection to a bridged guest come in by the pod's own interface. The pod's address alone
// says nothing: where a tenant's network gives the pod any address, the node's way to it may lead to a host, a Service
// or the node itself. Nor does the route: a Service's ports are redirected after it. Whatever the network's plugin is,
// a packet that comes in by the pod's interface is one that the pod could have had anyway.
type arrivals struct {
	file *os.File // a packet socket in the pod's network namespace
	mac  net.HardwareAddr
}

// Where things are in an Ethernet frame with an IPv4 packet, and then within the header of TCP or UDP.
const (
	frameType, frameHeader                         = 12, 14
	packetFragment, packetProtocol, packetTo       = frameHeader + 6, frameHeader + 9, frameHeader + 16
	sourcePort, targetPort, tcpSequence, udpLength = 0, 2, 4, 4
	tcpFlags, tcpSYN, tcpACK                       = 13, 0x02, 0x10
	udpHeader, fragmentOffset, largestFirstPacket  = 8, 0x1fff, 256
)

// watch is called before the guest is dialled.
func (p Plan) watch(pod Pod, network string, to netip.AddrPort) (a arrivals, err error) {
	err = inNamespace(pod.NetworkNamespace, func() error {
		links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("opening netlink: %w", err)
		}
		defer links.Close()
		named, err := podLink(links, p.PodInterface) // has the MAC that the network knows
		if err != nil {
			return err
		}
		nic, err := podLink(links, p.nic())
		if err != nil {
			return err
		}
		if a.mac = p.MAC; len(a.mac) == 0 {
			a.mac = named.Attrs().HardwareAddr
		}
		a.file, err = watchLink(nic.Attrs().Index, beginning(network, to))
		return err
	})
	return a, err
}

// watchLink opens a packet socket for what passes the filter on a link.
func watchLink(link int, filter []bpf.Instruction) (*os.File, error) {
	raw, err := bpf.Assemble(filter)
	if err != nil {
		return nil, fmt.Errorf("assembling a packet filter: %w", err)
	}
	program := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		program[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	// Protocol 0: nothing comes before the filter is there. A bridge takes what comes by its ports before any protocol
	// has it, so all are asked for.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "packets")
	err = errors.Join(
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: link}))
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("watching the pod's interface: %w", err)
	}
	return file, nil
}

func bigEndian(n uint16) uint16 { return n<<8 | n>>8 }

// beginning returns a filter that passes a TCP connection's first packet, or a UDP packet without content.
func beginning(network string, to netip.AddrPort) []bpf.Instruction {
	address := to.Addr().As4()
	protocol, field, mask, want := uint32(unix.IPPROTO_TCP), uint32(tcpFlags), uint32(tcpSYN|tcpACK), uint32(tcpSYN)
	size := 1
	if network == "udp" {
		protocol, field, mask, want, size = unix.IPPROTO_UDP, udpLength, 0xffff, udpHeader, 2
	}
	all := []bpf.Instruction{
		bpf.LoadAbsolute{Off: frameType, Size: 2}, bpf.JumpIf{Val: unix.ETH_P_IP},
		bpf.LoadAbsolute{Off: packetTo, Size: 4}, bpf.JumpIf{Val: binary.BigEndian.Uint32(address[:])},
		bpf.LoadAbsolute{Off: packetProtocol, Size: 1}, bpf.JumpIf{Val: protocol},
		bpf.LoadAbsolute{Off: packetFragment, Size: 2}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: fragmentOffset},
		bpf.JumpIf{Val: 0},
		bpf.LoadMemShift{Off: frameHeader},
		bpf.LoadIndirect{Off: frameHeader + targetPort, Size: 2}, bpf.JumpIf{Val: uint32(to.Port())},
		bpf.LoadIndirect{Off: frameHeader + field, Size: size}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask},
		bpf.JumpIf{Val: want},
		bpf.RetConstant{Val: largestFirstPacket},
		bpf.RetConstant{Val: 0},
	}
	for i, instruction := range all {
		if j, ok := instruction.(bpf.JumpIf); ok { // what is not equal goes to the last
			j.Cond, j.SkipFalse = bpf.JumpEqual, uint8(len(all)-i-2)
			all[i] = j
		}
	}
	return all
}

// hasArrived reports whether the first packet of a connection has come in. With TCP it has once the connection is open;
// with UDP it waits for the packet.
func (a arrivals) hasArrived(conn net.Conn, wait time.Duration) (bool, error) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		sequence, err := firstSequence(tcp)
		if err != nil {
			return false, err
		}
		return a.hasPacket(0, func(header []byte) bool {
			return binary.BigEndian.Uint32(header[tcpSequence:]) == sequence
		})
	}
	port := conn.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	return a.hasPacket(wait, func(header []byte) bool { return binary.BigEndian.Uint16(header[sourcePort:]) == port })
}

// hasPacket reports whether a packet comes in within wait, or has come in before, whose TCP or UDP header want accepts.
func (a arrivals) hasPacket(wait time.Duration, want func(header []byte) bool) (bool, error) {
	fd, until, b := int(a.file.Fd()), time.Now().Add(wait), make([]byte, largestFirstPacket)
	for {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(ready, int(max(0, time.Until(until)).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return false, fmt.Errorf("waiting for the pod's interface: %w", err)
		case n == 0:
			return false, nil
		}
		n, from, err := unix.Recvfrom(fd, b, 0)
		if err != nil {
			return false, fmt.Errorf("reading from the pod's interface: %w", err)
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		if !ok || link.Pkttype == unix.PACKET_OUTGOING || !bytes.HasPrefix(b, a.mac) {
			continue // the guest's own, or not for it
		}
		if header := frameHeader + int(b[frameHeader]&0xf)*4; n >= header+udpHeader && want(b[header:n]) {
			return true, nil
		}
	}
}

// firstSequence returns the sequence number that a connection which has sent nothing began with: no other sender knows
// it.
func firstSequence(conn *net.TCPConn) (uint32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("reading a connection's sequence number: %w", err)
	}
	const sendQueue, off = 2, -1 // TCP_SEND_QUEUE and TCP_REPAIR_OFF_NO_WP of linux/tcp.h
	next := 0
	var failed error
	err = raw.Control(func(s uintptr) {
		fd := int(s)
		set := func(option, value int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, option, value) }
		if failed = set(unix.TCP_REPAIR, 1); failed != nil {
			return
		}
		if failed = set(unix.TCP_REPAIR_QUEUE, sendQueue); failed == nil {
			next, failed = unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUEUE_SEQ)
		}
		failed = errors.Join(failed, set(unix.TCP_REPAIR, off))
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("reading a connection's sequence number: %w", err)
	}
	return uint32(next) - 1, nil // 32 bits of the kernel's
}
