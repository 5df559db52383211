package podnet

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
)

// User and group that launchers run as and that own the tap device: qemu's in KubeVirt's images.
const launcherUser = 107

// Binding is how a guest's interface comes to its network, by KubeVirt's name.
type Binding string

// The bindings.
const (
	Masquerade Binding = "masquerade"
	Bridge     Binding = "bridge"
	// ManagedTap and Tap are the bindings of a plugin without a program of its own. ManagedTap is Bridge on a network
	// that gives the guest its address. With Tap, the network's plugin has made the tap device in the pod.
	ManagedTap Binding = "managedTap"
	Tap        Binding = "tap"
)

// isBridged reports whether the guest takes the pod's place on the network by a bridge.
func (p Plan) isBridged() bool { return p.Binding == Bridge || p.Binding == ManagedTap }

// maxQueues is the kernel's limit for a tap device.
const maxQueues = 256

// maxPorts limits the rules that a VMI can cause.
const maxPorts = 1024

// Interface describes what one interface of a guest needs, as the VMI specifies it and its launcher repeats it.
type Interface struct {
	Network string // of the VMI; nothing here is named by it
	// Suffix of the names that KubeVirt gives to all devices for a network beside the pod's own, which the pod has an
	// interface of its own on, and Number is that interface's place among the guest's. "": the pod's own network.
	Suffix  string
	Number  int
	Binding Binding
	// IPv4 and IPv6 are the guest's private networks behind masquerade; invalid: KubeVirt's.
	IPv4, IPv6 netip.Prefix
	// Ports that others reach behind masquerade; none: all, of every protocol.
	Ports []Ports
	// MAC that the guest has with the binding bridge; nil: the pod's.
	MAC net.HardwareAddr
	// Queues of the guest's interface.
	Queues int
}

// Ports are the ports of one protocol from First to Last.
type Ports struct {
	UDP         bool
	First, Last uint16
}

// Plan describes how one interface of a guest is made.
type Plan struct {
	Interface
	PodInterface string
	Bridge       string
	Tap          string
	// own is the bridge's address with the binding bridge. Only the guest knows the bridge by it.
	own netip.Prefix
	// table has the rules of a bridged guest, and routes is the routing table with what it was given.
	table  string
	routes int
}

// MaxInterfaces bounds what is made in one pod.
const MaxInterfaces = 32

// PodNetwork returns the interface of a guest whose launcher is of an earlier version, which masqueraded all.
func PodNetwork() Interface { return Interface{Binding: Masquerade, Queues: 1} }

// podInterface is the pod's interface on its own network.
const podInterface = "eth0"

// firstOwn is KubeVirt's address for the bridge of the first bridged interface.
var firstOwn = netip.AddrFrom4([4]byte{169, 254, 75, 10})

// KubeVirt's private networks.
var (
	privateIPv4 = netip.MustParsePrefix("10.0.2.0/24")
	privateIPv6 = netip.MustParsePrefix("fd10:0:2::/120")
)

// NewPlan returns a plan with KubeVirt's names for an interface. The error says what is wrong with it.
func NewPlan(i Interface) (Plan, error) {
	p := Plan{Interface: i, PodInterface: podInterface, Bridge: "k6t-" + podInterface, Tap: "tap0",
		own: netip.PrefixFrom(firstOwn, firstOwn.BitLen()), table: tableName, routes: keptRoutes}
	switch {
	case i.Suffix != "" && (i.Binding == Masquerade || !suffixes.MatchString(i.Suffix)):
		return p, fmt.Errorf("a network %.32q beside the pod's own cannot be masqueraded, and has KubeVirt's name",
			i.Suffix)
	case i.Number < 0 || i.Number >= MaxInterfaces:
		return p, fmt.Errorf("a guest cannot have more than %d interfaces", MaxInterfaces)
	case i.Binding != Masquerade && i.Binding != Bridge && i.Binding != ManagedTap && i.Binding != Tap:
		return p, fmt.Errorf("%.32q is no binding that this node knows", string(i.Binding))
	case i.Queues < 1 || i.Queues > maxQueues:
		return p, fmt.Errorf("the interface cannot have %d queues", i.Queues)
	case len(i.Ports) > maxPorts:
		return p, fmt.Errorf("%d ports are more than %d", len(i.Ports), maxPorts)
	case len(i.MAC) != 0 && !isUnicast(i.MAC):
		return p, fmt.Errorf("%s is no MAC address of an interface", i.MAC)
	}
	for _, ports := range i.Ports {
		if ports.First == 0 || ports.Last < ports.First {
			return p, fmt.Errorf("there are no ports from %d to %d", ports.First, ports.Last)
		}
	}
	if i.Suffix != "" {
		p.beside()
	}
	if i.Binding == Tap {
		p.Bridge = ""
	}
	var err error
	if p.IPv4, err = private(i.IPv4, privateIPv4); err != nil {
		return p, err
	}
	p.IPv6, err = private(i.IPv6, privateIPv6)
	return p, err
}

// suffixes matches the suffixes with which names of interfaces stay valid.
var suffixes = regexp.MustCompile(`^[0-9a-f]{1,11}$`)

// beside names what is for a network beside the pod's own. Interfaces share neither addresses, nor rules, nor routes.
func (p *Plan) beside() {
	p.PodInterface, p.Bridge, p.Tap = "pod"+p.Suffix, "k6t-"+p.Suffix, "tap"+p.Suffix
	p.table = tableName + "-" + p.Suffix
	own := firstOwn.As4()
	own[3] += byte(p.Number)
	p.own = netip.PrefixFrom(netip.AddrFrom4(own), firstOwn.BitLen())
	p.routes = keptRoutes + 1 + p.Number
}

// private returns a network with room for a gateway and a guest, where no multicast or loopback is.
func private(network, usual netip.Prefix) (netip.Prefix, error) {
	if !network.IsValid() {
		return usual, nil
	}
	network = network.Masked()
	a := network.Addr()
	switch {
	case a.Is4() != usual.Addr().Is4() || a.Is4In6():
		return network, fmt.Errorf("%s is not of the family of %s", network, usual)
	case a.BitLen()-network.Bits() < 2:
		return network, fmt.Errorf("%s has no room for a gateway and a guest", network)
	case a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast():
		return network, fmt.Errorf("%s is no network for a guest", network)
	}
	return network, nil
}

func isUnicast(mac net.HardwareAddr) bool { return len(mac) == 6 && mac[0]&1 == 0 }

// gatewayOf returns the first address of a private network, with the network's length.
func gatewayOf(network netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(network.Addr().Next(), network.Bits())
}

// guestOf returns the second address of a private network, with the length of the network.
func guestOf(network netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(network.Addr().Next().Next(), network.Bits())
}

// IsOnPodNetwork reports whether the interface is on the pod's own network.
func (p Plan) IsOnPodNetwork() bool { return p.Suffix == "" }

// nic returns the name of the pod's interface once it is a port of the bridge.
func (p Plan) nic() string { return strings.TrimPrefix(p.PodInterface, "pod") + "-nic" }

// Prepared describes a guest's interface after the preparation.
type Prepared struct {
	// Tap is the guest's device where the network's plugin has made it; "": the plan's.
	Tap string
	MTU int
	// MAC of the pod's interface, which a bridged guest takes; empty behind masquerade.
	MAC net.HardwareAddr
	// IPv4 and IPv6 are the guest's addresses with their networks' lengths; invalid: it has none of that family, or
	// gets it elsewhere.
	IPv4, IPv6 netip.Prefix
	// Gateway of IPv4, and the server that DHCP is to be answered from.
	Gateway, Server netip.Addr
	// Routes that the guest needs besides.
	Routes []Route
}

// Route leads to a destination by a gateway; invalid: it is on the link.
type Route struct {
	Destination netip.Prefix
	Gateway     netip.Addr
}
