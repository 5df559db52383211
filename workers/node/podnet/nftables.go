package podnet

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// applyRules replaces virtflow's tables by these, in one transaction, in the network namespace of the calling thread.
// Connections that are open stay as they were translated.
func applyRules(tables ...table) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("opening nftables: %w", err)
	}
	for _, t := range tables {
		if t.name == "" {
			t.name = tableName
		}
		added := &nftables.Table{Name: t.name, Family: t.family}
		// Added before it is deleted, so that deleting it cannot fail.
		c.AddTable(added)
		c.DelTable(added)
		c.AddTable(added)
		for _, ch := range t.chains {
			base := c.AddChain(ch.nft(added))
			for _, r := range ch.rules {
				c.AddRule(&nftables.Rule{Table: added, Chain: base, Exprs: r.expressions()})
			}
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("writing the rules of the guest's network: %w", err)
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
		input:       nftables.ChainHookInput,
		forward:     nftables.ChainHookForward,
		output:      nftables.ChainHookOutput,
		postrouting: nftables.ChainHookPostrouting,
	}
	return &nftables.Chain{
		Name: ch.name, Table: table, Type: kind, Hooknum: hooks[ch.hook],
		Priority: nftables.ChainPriorityRef(nftables.ChainPriority(ch.priority)),
	}
}

// expressions are the rule in the kernel's terms.
func (r rule) expressions() []expr.Any {
	var e []expr.Any
	for _, m := range r.when {
		e = append(e, m.exprs...)
	}
	switch r.do {
	case accept:
		return append(e, &expr.Verdict{Kind: expr.VerdictAccept})
	case drop:
		return append(e, &expr.Verdict{Kind: expr.VerdictDrop})
	case receive:
		return append(e, readdress(bridgeMAC)...)
	case masquerade:
		return append(e, &expr.Masq{})
	case dnat:
		return append(e, translate(expr.NATTypeDestNAT, r.address)...)
	case snat:
		return append(e, translate(expr.NATTypeSourceNAT, r.address)...)
	}
	return e
}

func translate(kind expr.NATType, to netip.Addr) []expr.Any {
	family := uint32(unix.NFPROTO_IPV4)
	if to.Is6() {
		family = unix.NFPROTO_IPV6
	}
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: to.AsSlice()},
		&expr.NAT{Type: kind, Family: family, RegAddrMin: 1},
	}
}

// readdress has a frame be for that MAC, and for this host: what it was for until now the kernel has noted already.
func readdress(mac net.HardwareAddr) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: mac},
		&expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: 1, Base: expr.PayloadBaseLLHeader, Len: 6},
		&expr.Immediate{Register: 1, Data: []byte{unix.PACKET_HOST}},
		&expr.Meta{Key: expr.MetaKeyPKTTYPE, SourceRegister: true, Register: 1},
		&expr.Verdict{Kind: expr.VerdictAccept},
	}
}
