package podnet

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// match is a condition of a rule, as nft prints it and as the kernel takes it: something is loaded into register 1 and
// compared.
type match struct {
	text  string
	exprs []expr.Any
}

func incoming(name string) match {
	return match{fmt.Sprintf("iifname %q", name),
		[]expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, equals(interfaceName(name))}}
}

func outgoing(name string) match {
	return match{fmt.Sprintf("oifname %q", name),
		[]expr.Any{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, equals(interfaceName(name))}}
}

func source(p netip.Prefix) match {
	return match{family(p.Addr()).nft + " saddr " + prefixText(p), address(family(p.Addr()).source, expr.CmpOpEq, p)}
}

func notSource(p netip.Prefix) match {
	return match{family(p.Addr()).nft + " saddr != " + prefixText(p),
		address(family(p.Addr()).source, expr.CmpOpNeq, p)}
}

func destination(p netip.Prefix) match {
	return match{family(p.Addr()).nft + " daddr " + prefixText(p),
		address(family(p.Addr()).destination, expr.CmpOpEq, p)}
}

// udp matches a datagram from one port to another.
func udp(from, to uint16) match {
	return match{fmt.Sprintf("udp sport %d udp dport %d", from, to), append(protocol(unix.IPPROTO_UDP),
		// The two ports are the first four bytes (RFC 768).
		transport(0, 4), equals(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, from), to)))}
}

// to matches what is sent to one of the ports.
func (p Ports) to() match {
	name, number := "tcp", byte(unix.IPPROTO_TCP)
	if p.UDP {
		name, number = "udp", unix.IPPROTO_UDP
	}
	// The destination follows the source (RFC 768, RFC 9293).
	m := match{fmt.Sprintf("%s dport %d", name, p.First), append(protocol(number), transport(2, 2))}
	if p.First == p.Last {
		m.exprs = append(m.exprs, equals(binary.BigEndian.AppendUint16(nil, p.First)))
		return m
	}
	m.text += fmt.Sprintf("-%d", p.Last)
	m.exprs = append(m.exprs,
		&expr.Cmp{Op: expr.CmpOpGte, Register: 1, Data: binary.BigEndian.AppendUint16(nil, p.First)},
		&expr.Cmp{Op: expr.CmpOpLte, Register: 1, Data: binary.BigEndian.AppendUint16(nil, p.Last)})
	return m
}

func notEther(mac net.HardwareAddr) match {
	return match{"ether saddr != " + mac.String(), []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseLLHeader, Offset: 6, Len: 6},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: mac},
	}}
}

// carries matches frames with packets of a protocol. It reads the frame: to the kernel a frame with a VLAN's tag is of
// the protocol within.
func carries(p etherType) match {
	return match{"ether type " + p.name, []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseLLHeader, Offset: 12, Len: 2},
		equals(binary.BigEndian.AppendUint16(nil, p.number)),
	}}
}

type etherType struct {
	name   string
	number uint16
}

func ipv4() etherType { return etherType{"ip", unix.ETH_P_IP} }
func arp() etherType  { return etherType{"arp", unix.ETH_P_ARP} }

// Where an ARP packet has its sender, in bytes (RFC 826).
const (
	arpSenderMAC = 8
	arpSenderIP  = 14
)

func notARPEther(mac net.HardwareAddr) match {
	return match{"arp saddr ether != " + mac.String(), []expr.Any{network(arpSenderMAC, 6),
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: mac}}}
}

func arpSource(ip netip.Addr) match {
	return match{"arp saddr ip " + ip.String(), []expr.Any{network(arpSenderIP, net.IPv4len), equals(ip.AsSlice())}}
}

func equals(data []byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }

func network(offset, length uint32) expr.Any {
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length}
}

func transport(offset, length uint32) expr.Any {
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: length}
}

func protocol(number byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equals([]byte{number})}
}

// interfaceName returns a name as the kernel compares it: whole, with its final zero, in 16 bytes.
func interfaceName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b[:unix.IFNAMSIZ-1], name)
	return b
}

// header is where a header has its addresses, in bytes.
type header struct {
	nft                 string
	source, destination uint32
}

// family returns the header that an address belongs into (RFC 791, RFC 8200).
func family(a netip.Addr) header {
	if a.Is4() {
		return header{nft: "ip", source: 12, destination: 16}
	}
	return header{nft: "ip6", source: 8, destination: 24}
}

func address(offset uint32, op expr.CmpOp, p netip.Prefix) []expr.Any {
	size := p.Addr().BitLen() / 8
	return []expr.Any{
		network(offset, uint32(size)),
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: uint32(size),
			Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()), Xor: make([]byte, size),
		},
		&expr.Cmp{Op: op, Register: 1, Data: p.Masked().Addr().AsSlice()},
	}
}

// prefixText returns a prefix as nft prints it: that of a single address has no length.
func prefixText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// hostPrefix returns the prefix that has only this address.
func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
