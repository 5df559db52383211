package podnet

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Offsets of the addresses in an IPv4 header, in bytes (RFC 791).
const (
	offsetSource      = 12
	offsetDestination = 16
)

// applyRules replaces virtflow's table by one with these chains, in one transaction, in the network namespace of the
// calling thread. Connections that are open stay as they were translated.
func applyRules(chains []chain) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}
	// Added before it is deleted, so that deleting it cannot fail.
	c.AddTable(table)
	c.DelTable(table)
	c.AddTable(table)
	for _, ch := range chains {
		added := c.AddChain(ch.nft(table))
		for _, r := range ch.rules {
			c.AddRule(&nftables.Rule{Table: table, Chain: added, Exprs: r.expressions()})
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("writing the address translation rules: %w", err)
	}
	return nil
}

func (ch chain) nft(table *nftables.Table) *nftables.Chain {
	kind := nftables.ChainTypeFilter
	if ch.nat {
		kind = nftables.ChainTypeNAT
	}
	hooks := map[hook]*nftables.ChainHook{
		prerouting:  nftables.ChainHookPrerouting,
		output:      nftables.ChainHookOutput,
		postrouting: nftables.ChainHookPostrouting,
	}
	return &nftables.Chain{
		Name: ch.name, Table: table, Type: kind, Hooknum: hooks[ch.hook],
		Priority: nftables.ChainPriorityRef(nftables.ChainPriority(ch.priority)),
	}
}

// expressions are the rule in the kernel's terms: each match loads something into register 1 and compares it.
func (r rule) expressions() []expr.Any {
	var e []expr.Any
	if r.in != "" {
		e = append(e, &expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, equals(interfaceName(r.in)))
	}
	if r.out != "" {
		e = append(e, &expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, equals(interfaceName(r.out)))
	}
	if r.from.IsValid() {
		e = append(e, address(offsetSource, expr.CmpOpEq, r.from)...)
	}
	if r.notFrom.IsValid() {
		e = append(e, address(offsetSource, expr.CmpOpNeq, r.notFrom)...)
	}
	if r.to.IsValid() {
		e = append(e, address(offsetDestination, expr.CmpOpEq, r.to)...)
	}
	if r.udp != nil {
		e = append(e,
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equals([]byte{unix.IPPROTO_UDP}),
			// The two ports are the first four bytes (RFC 768).
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 4},
			equals(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, r.udp.from), r.udp.to)),
		)
	}
	switch r.do {
	case accept:
		return append(e, &expr.Verdict{Kind: expr.VerdictAccept})
	case drop:
		return append(e, &expr.Verdict{Kind: expr.VerdictDrop})
	case masquerade:
		return append(e, &expr.Masq{})
	case dnat:
		return append(e, translate(expr.NATTypeDestNAT, r.address)...)
	case snat:
		return append(e, translate(expr.NATTypeSourceNAT, r.address)...)
	}
	return e
}

func equals(data []byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }

// interfaceName is a name as the kernel compares it: whole, with its final zero, in 16 bytes.
func interfaceName(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b[:unix.IFNAMSIZ-1], name)
	return b
}

func address(offset uint32, op expr.CmpOp, p netip.Prefix) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: net.IPv4len},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: net.IPv4len,
			Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()), Xor: make([]byte, net.IPv4len),
		},
		&expr.Cmp{Op: op, Register: 1, Data: p.Masked().Addr().AsSlice()},
	}
}

func translate(kind expr.NATType, to netip.Addr) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: to.AsSlice()},
		&expr.NAT{Type: kind, Family: unix.NFPROTO_IPV4, RegAddrMin: 1},
	}
}
