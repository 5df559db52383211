package podnet

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
)

// tableName is virtflow's table in the pod's network namespace. Other programs' tables there stay unchanged.
const tableName = "virtflow"

// hook is a place in the kernel's packet processing, by nftables' name.
type hook string

const (
	prerouting  hook = "prerouting"
	input       hook = "input"
	forward     hook = "forward"
	output      hook = "output"
	postrouting hook = "postrouting"
)

// verb is the action of a rule for a packet that it matches.
type verb string

const (
	accept     verb = "accept"
	drop       verb = "drop"
	masquerade verb = "masquerade"
	dnat       verb = "dnat"
	snat       verb = "snat"
	// receive has the bridge itself receive a frame, whatever its destination.
	receive verb = "receive"
)

// rule does something with the packets that match all of its conditions, and is printed as nft would.
type rule struct {
	when    []match
	do      verb
	address netip.Addr // of dnat and snat
}

// chain is a base chain: nat, or a filter.
type chain struct {
	name     string
	nat      bool
	hook     hook
	priority int
	rules    []rule
}

// table is virtflow's nftables table of one family. Without a name it has the default name, which only the tables of
// further networks do not have.
type table struct {
	name   string
	family nftables.TableFamily
	chains []chain
}

// Ports of DHCP (RFC 2131).
const dhcpClient, dhcpServer = 68, 67

// Priorities by nftables' names. A filter before raw is before connection tracking has put anything back.
const (
	priorityRaw     = -300
	priorityDestNAT = -100
	prioritySrcNAT  = 100
)

// translation has the pod's addresses of one family be the guest's, in both directions: for every protocol and port, or
// for the ports that the VMI names. The guest itself also reaches these by them, as a pod does.
func (p Plan) translation(private netip.Prefix, own ...netip.Addr) table {
	guest := guestOf(private).Addr()
	// What the guest sends from another address than its own would not be masqueraded: it would leave the pod with that
	// address. Its ARP never leaves the pod: the bridge has no other port than the guest's.
	guard := chain{name: "guard", hook: prerouting, priority: priorityRaw}
	inbound := chain{name: "inbound", nat: true, hook: prerouting, priority: priorityDestNAT}
	outbound := chain{name: "outbound", nat: true, hook: postrouting, priority: prioritySrcNAT}
	p.redirect(&inbound, guest, incoming(p.PodInterface))
	outbound.add(masquerade, outgoing(p.PodInterface), source(hostPrefix(guest)))
	for _, address := range own {
		p.redirect(&inbound, guest, incoming(p.Bridge), destination(hostPrefix(address)))
	}
	if len(own) > 0 { // what comes back as the guest's own it would not take
		outbound.rules = append(outbound.rules, rule{do: snat, address: own[0],
			when: []match{outgoing(p.Bridge), source(hostPrefix(guest)), destination(hostPrefix(guest))}})
	}
	if guest.Is6() {
		guard.rules = discoverIPv6(p.Bridge)
		guard.add(drop, incoming(p.Bridge), notSource(hostPrefix(guest)))
		return table{family: nftables.TableFamilyIPv6, chains: []chain{guard, inbound, outbound}}
	}
	// kubectl port-forward and other containers of the pod speak to localhost. The bridge routes loopback addresses for
	// their sake; the guest must not reach the pod's by that. The kernel routes none of IPv6.
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	local := chain{name: "local", nat: true, hook: output, priority: priorityDestNAT}
	p.redirect(&local, guest, destination(hostPrefix(netip.MustParseAddr("127.0.0.1"))))
	outbound.rules = append(outbound.rules, rule{
		when: []match{outgoing(p.Bridge), source(loopback)}, do: snat, address: gatewayOf(private).Addr()})
	guard.add(drop, incoming(p.Bridge), destination(loopback))
	guard.rules = append(guard.rules, askForIPv4(p.Bridge)...)
	guard.add(drop, incoming(p.Bridge), notSource(hostPrefix(guest)))
	return table{family: nftables.TableFamilyIPv4, chains: []chain{guard, inbound, local, outbound}}
}

// redirect sends what meets the conditions to the guest, where the VMI has named no ports or that is one of them.
func (p Plan) redirect(c *chain, guest netip.Addr, when ...match) {
	if len(p.Ports) == 0 {
		c.rules = append(c.rules, rule{when: when, do: dnat, address: guest})
	}
	for _, ports := range p.Ports {
		c.rules = append(c.rules, rule{when: append(slices.Clone(when), ports.to()), do: dnat, address: guest})
	}
}

// askForIPv4: a guest that asks for its address has none yet.
func askForIPv4(bridge string) []rule {
	var c chain
	c.add(accept, incoming(bridge), source(hostPrefix(netip.IPv4Unspecified())), udp(dhcpClient, dhcpServer))
	return c.rules
}

// discoverIPv6: neighbours are found, and addresses asked for, on the link: from an address of the link or, before the
// guest has one, from none. The kernel forwards nothing of that.
func discoverIPv6(bridge string) []rule {
	link, group := netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff02::/16")
	var c chain
	c.add(accept, incoming(bridge), source(link), destination(link))
	c.add(accept, incoming(bridge), source(link), destination(group))
	c.add(accept, incoming(bridge), source(hostPrefix(netip.IPv6Unspecified())), destination(group))
	return c.rules
}

// guarded lets a guest that has taken the pod's place on the pod network speak with the pod's address and its own MAC
// only. As with KubeVirt it is given no IPv6 address, so it speaks no IPv6. Its address is handed out here: no host of
// the network is asked for it, nor answers. The pod's own stack speaks DHCP with the guest, and nothing else.
func (p Plan) guarded(mac net.HardwareAddr, ip netip.Addr) table {
	tap := incoming(p.Tap)
	guard := p.speaksAs(mac)
	for _, a := range []netip.Addr{ip, netip.IPv4Unspecified()} { // none: it asks whether the address is free
		guard.add(accept, tap, carries(arp()), arpSource(a))
	}
	guard.rules = append(guard.rules, p.renewal(ip))
	guard.add(accept, tap, carries(ipv4()), source(hostPrefix(ip)))
	guard.add(accept, tap, carries(ipv4()), source(hostPrefix(netip.IPv4Unspecified())), request())
	guard.add(drop, tap)
	return table{family: nftables.TableFamilyBridge, chains: append([]chain{guard}, p.served()...)}
}

// identified lets a guest that has taken the pod's place on the pod network speak with the pod's address and its own
// MAC only, as guarded does. Its network hands the address out: the guest's DHCP requests pass, and the pod's own stack
// receives and sends nothing.
func (p Plan) identified(mac net.HardwareAddr, ip netip.Addr) table {
	tap := incoming(p.Tap)
	guard := p.speaksAs(mac)
	for _, a := range []netip.Addr{ip, netip.IPv4Unspecified()} { // none: it asks whether the address is free
		guard.add(accept, tap, carries(arp()), arpSource(a))
	}
	guard.add(drop, tap, carries(ipv4()), udp(dhcpServer, dhcpClient))
	guard.add(accept, tap, carries(ipv4()), source(hostPrefix(ip)))
	guard.add(accept, tap, carries(ipv4()), source(hostPrefix(netip.IPv4Unspecified())), request())
	guard.add(drop, tap)
	return table{family: nftables.TableFamilyBridge, chains: []chain{guard, p.silent(), p.deaf()}}
}

// deaf keeps the pod's own stack from receiving what is on the network.
func (p Plan) deaf() chain {
	own := chain{name: "own", hook: input, priority: priorityRaw}
	own.add(drop, incoming(p.Tap))
	own.add(drop, incoming(p.nic()))
	return own
}

// guard restricts a bridged guest to its own identity. On a network beside the pod's own that is its MAC: addresses are
// between the guest and that network. The pod itself answers only a guest that requests the address that the network
// has given it: it would forward anything else into its own network.
func (p Plan) guard(mac net.HardwareAddr, address netip.Prefix) table {
	switch {
	case p.IsOnPodNetwork() && p.Binding == ManagedTap:
		return p.identified(mac, address.Addr())
	case p.IsOnPodNetwork():
		return p.guarded(mac, address.Addr())
	}
	guard := p.speaksAs(mac)
	out := table{name: p.table, family: nftables.TableFamilyBridge}
	if address.IsValid() && p.Binding == Bridge {
		guard.rules = append(guard.rules, p.renewal(address.Addr()))
		out.chains = append([]chain{guard}, p.served()...)
		return out
	}
	out.chains = []chain{guard, p.silent(), p.deaf()}
	return out
}

// speaksAs has a guest use no other MAC than its own.
func (p Plan) speaksAs(mac net.HardwareAddr) chain {
	tap := incoming(p.Tap)
	guard := chain{name: "guard", hook: prerouting, priority: priorityRaw}
	guard.add(drop, tap, notEther(mac))
	guard.add(drop, tap, carries(arp()), notARPEther(mac))
	return guard
}

// request matches what a DHCP client requests.
func request() match { return udp(dhcpClient, dhcpServer) }

// renewal: a guest that renews its lease asks the server by its address. That is on no network of the guest's, which so
// sends to its gateway.
func (p Plan) renewal(ip netip.Addr) rule {
	return rule{do: receive, when: []match{incoming(p.Tap), carries(ipv4()), source(hostPrefix(ip)), destination(p.own),
		request()}}
}

// served keeps a guest's DHCP in its pod, and its pod's stack to that.
func (p Plan) served() []chain {
	tap, nic := incoming(p.Tap), incoming(p.nic())
	dhcp := chain{name: "dhcp", hook: forward, priority: priorityRaw}
	for _, port := range []match{tap, nic} { // of this bridge: a pod may have several
		dhcp.add(drop, port, carries(ipv4()), request())
		dhcp.add(drop, port, carries(ipv4()), udp(dhcpServer, dhcpClient))
	}
	// What is sent to all hosts is also for the pod's stack, and a guest could send to the bridge, which would route
	// what has another destination.
	own := chain{name: "own", hook: input, priority: priorityRaw}
	own.add(accept, tap, carries(arp()))
	everybody := netip.MustParseAddr("255.255.255.255")
	for _, to := range []netip.Prefix{hostPrefix(p.own.Addr()), hostPrefix(everybody)} {
		own.add(accept, tap, carries(ipv4()), destination(to), request())
	}
	own.add(drop, tap)
	own.add(drop, nic)
	return []chain{dhcp, p.silent(), own}
}

// silent keeps the pod's own stack from speaking on the network: answers, and questions where the guest is, are for
// everybody on the bridge.
func (p Plan) silent() chain {
	answers := chain{name: "answers", hook: output, priority: priorityRaw}
	answers.add(drop, outgoing(p.nic()))
	return answers
}

func (c *chain) add(do verb, when ...match) { c.rules = append(c.rules, rule{when: when, do: do}) }

func (r rule) String() string {
	words := make([]string, 0, len(r.when)+1)
	for _, m := range r.when {
		words = append(words, m.text)
	}
	words = append(words, string(r.do))
	if r.address.IsValid() {
		words = append(words, "to "+r.address.String())
	}
	return strings.Join(words, " ")
}
