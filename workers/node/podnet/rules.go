package podnet

import (
	"fmt"
	"net/netip"
	"strings"
)

// tableName is virtflow's table in the pod's network namespace; whoever else has rules there keeps them.
const tableName = "virtflow"

// hook is a place in the kernel's way of a packet, by nftables' name.
type hook string

const (
	prerouting  hook = "prerouting"
	output      hook = "output"
	postrouting hook = "postrouting"
)

// verb is what a rule does with a packet that it matches.
type verb string

const (
	accept     verb = "accept"
	drop       verb = "drop"
	masquerade verb = "masquerade"
	dnat       verb = "dnat"
	snat       verb = "snat"
)

// rule matches packets by what is set, and is printed as nft would.
type rule struct {
	in, out  string // interfaces
	from, to netip.Prefix
	notFrom  netip.Prefix
	udp      *ports
	do       verb
	address  netip.Addr // of dnat and snat
}

// ports are those of a datagram.
type ports struct{ from, to uint16 }

// chain is a base chain: nat, or a filter.
type chain struct {
	name     string
	nat      bool
	hook     hook
	priority int
	rules    []rule
}

// Ports of DHCP (RFC 2131).
const dhcpClient, dhcpServer = 68, 67

// Priorities by nftables' names. A filter before raw is before connection tracking has put anything back.
const (
	priorityRaw     = -300
	priorityDestNAT = -100
	prioritySrcNAT  = 100
)

// chains is the whole rule set: the pod's address is the guest's, in both directions and for every protocol and port.
func (p Plan) chains() []chain {
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	localhost := netip.MustParsePrefix("127.0.0.1/32")
	guest := netip.PrefixFrom(p.Guest, p.Guest.BitLen())
	none := netip.PrefixFrom(netip.IPv4Unspecified(), 32)
	return []chain{
		// The bridge routes loopback addresses for the sake of connections from the pod; the guest must not reach the
		// pod's by that. What the guest sends from another address than its own would not be masqueraded: it would
		// leave the pod with that address. A guest that asks for its address has none yet. Its ARP never leaves the
		// pod: the bridge has no other port than the guest's.
		{name: "guard", hook: prerouting, priority: priorityRaw, rules: []rule{
			{in: p.Bridge, to: loopback, do: drop},
			{in: p.Bridge, from: none, udp: &ports{from: dhcpClient, to: dhcpServer}, do: accept},
			{in: p.Bridge, notFrom: guest, do: drop},
		}},
		{name: "inbound", nat: true, hook: prerouting, priority: priorityDestNAT, rules: []rule{
			{in: p.PodInterface, do: dnat, address: p.Guest},
		}},
		// kubectl port-forward and other containers of the pod speak to localhost.
		{name: "local", nat: true, hook: output, priority: priorityDestNAT, rules: []rule{
			{to: localhost, do: dnat, address: p.Guest},
		}},
		{name: "outbound", nat: true, hook: postrouting, priority: prioritySrcNAT, rules: []rule{
			{out: p.PodInterface, from: guest, do: masquerade},
			{out: p.Bridge, from: loopback, do: snat, address: p.Gateway.Addr()},
		}},
	}
}

func (r rule) String() string {
	var b strings.Builder
	for _, m := range []struct{ key, value string }{{"iifname", r.in}, {"oifname", r.out}} {
		if m.value != "" {
			fmt.Fprintf(&b, "%s %q ", m.key, m.value)
		}
	}
	for _, m := range []struct {
		key   string
		value netip.Prefix
	}{{"ip saddr", r.from}, {"ip saddr !=", r.notFrom}, {"ip daddr", r.to}} {
		if !m.value.IsValid() {
			continue
		}
		address := m.value.String()
		if m.value.IsSingleIP() {
			address = m.value.Addr().String()
		}
		fmt.Fprintf(&b, "%s %s ", m.key, address)
	}
	if r.udp != nil {
		fmt.Fprintf(&b, "udp sport %d udp dport %d ", r.udp.from, r.udp.to)
	}
	b.WriteString(string(r.do))
	if r.address.IsValid() {
		fmt.Fprintf(&b, " to %s", r.address)
	}
	return b.String()
}
