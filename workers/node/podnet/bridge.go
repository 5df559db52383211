package podnet

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// keptRoutes is the routing table with the routes that were the pod's and are now the guest's; those of networks beside
// the pod's own follow it. Nothing looks routes up there.
const keptRoutes = 75

// errNoIPv4 is the error for a pod without an IPv4 address: without one there is no rule for what the guest may send.
var errNoIPv4 = errors.New(
	"the pod has no IPv4 address, and a bridged guest gets no other: use masquerade")

// bridge works in the network namespace of the calling thread. The pod's interface is renamed and becomes a port of the
// bridge. A link that never goes up takes its name, MAC and addresses over: it is what remembers them, and what
// everybody sees who asks for the pod's addresses.
func (p Plan) bridge(links *netlink.Handle) (Prepared, error) {
	bridge, err := ensureBridge(links, p.Bridge, bridgeMAC)
	if err != nil {
		return Prepared{}, err
	}
	if err := noIPv6(p.Bridge); err != nil {
		return Prepared{}, err
	}
	nic, err := p.takeNIC(links, bridge)
	if err != nil {
		return Prepared{}, err
	}
	pod, err := podLink(links, p.PodInterface)
	if err != nil {
		return Prepared{}, err
	}
	done, err := p.handedOver(links, bridge, pod)
	if err != nil {
		return Prepared{}, err
	}
	address := done.IPv4
	if p.Binding == ManagedTap { // the network itself gives the guest this address
		done = Prepared{MTU: done.MTU, MAC: done.MAC}
	}
	if err := p.enslave(links, nic, bridge, pod); err != nil {
		return Prepared{}, err
	}
	if done.IPv4.IsValid() {
		if err := giveAddress(links, bridge, p.own); err != nil {
			return Prepared{}, err
		}
	}
	if err := ensureSysctls(forBridge(p.Bridge)); err != nil {
		return Prepared{}, err
	}
	// The guard comes before anything of the guest's can leave.
	mac := done.MAC
	if len(p.MAC) > 0 {
		mac = p.MAC
	}
	if err := applyRules(p.guard(mac, address)); err != nil {
		return Prepared{}, err
	}
	if err := setUp(links, bridge, done.MTU); err != nil {
		return Prepared{}, err
	}
	if !done.IPv4.IsValid() {
		return done, p.ensureTap(links, done.MTU, bridge)
	}
	// A guest that renews its lease speaks with its address, and is answered there.
	route := &netlink.Route{LinkIndex: bridge.Attrs().Index, Scope: netlink.SCOPE_LINK,
		Dst: ipNet(hostPrefix(done.IPv4.Addr()))}
	if err := links.RouteReplace(route); err != nil {
		return Prepared{}, fmt.Errorf("routing to the guest: %w", err)
	}
	return done, p.ensureTap(links, done.MTU, bridge)
}

// takeNIC returns the pod's interface, renamed. Everything that is known by it is kept first.
func (p Plan) takeNIC(links *netlink.Handle, bridge netlink.Link) (netlink.Link, error) {
	nic, err := links.LinkByName(p.nic())
	if isAbsent(err) {
		if nic, err = podLink(links, p.PodInterface); err != nil {
			return nil, err
		}
		known, err := addresses(links, nic)
		if err == nil && !firstIPv4(known).IsValid() && p.IsOnPodNetwork() {
			err = errNoIPv4
		}
		if err != nil {
			return nil, err
		}
		if err := p.keep(links, nic, bridge); err != nil {
			return nil, err
		}
		if err := links.LinkSetDown(nic); err != nil {
			return nil, fmt.Errorf("setting %s down: %w", p.PodInterface, err)
		}
		if err := links.LinkSetName(nic, p.nic()); err != nil {
			return nil, fmt.Errorf("renaming %s: %w", p.PodInterface, err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", p.nic(), err)
	}
	standIn, err := links.LinkByName(p.standIn())
	if isAbsent(err) {
		return nic, nil
	}
	if err == nil {
		err = links.LinkSetName(standIn, p.PodInterface)
	}
	if err != nil {
		return nil, fmt.Errorf("naming the link in the place of %s: %w", p.PodInterface, err)
	}
	return nic, nil
}

// standIn returns the name of the link in the place of the pod's interface until that has another name.
func (p Plan) standIn() string { return "in-" + strings.TrimPrefix(p.PodInterface, "pod") }

// keep makes the link in the place of the pod's interface, and keeps the routes. The link is a bridge without ports,
// which every kernel that can run this has.
func (p Plan) keep(links *netlink.Handle, nic, bridge netlink.Link) error {
	if err := links.LinkSetUp(bridge); err != nil {
		return fmt.Errorf("setting %s up: %w", p.Bridge, err)
	}
	routes, err := links.RouteList(nic, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("listing the routes of %s: %w", p.PodInterface, err)
	}
	for _, r := range routes {
		if r.Gw == nil && r.Src != nil && r.Protocol == unix.RTPROT_KERNEL {
			continue // that of the address itself
		}
		kept := &netlink.Route{LinkIndex: bridge.Attrs().Index, Table: p.routes, Dst: r.Dst, Gw: r.Gw,
			Priority: r.Priority, Scope: r.Scope}
		if r.Gw != nil {
			kept.Flags = int(netlink.FLAG_ONLINK)
		}
		if err := links.RouteReplace(kept); err != nil {
			return fmt.Errorf("keeping the route %s: %w", r, err)
		}
	}
	standIn, err := ensureBridge(links, p.standIn(), nic.Attrs().HardwareAddr)
	if err != nil {
		return err
	}
	if err := links.LinkSetMTU(standIn, nic.Attrs().MTU); err != nil {
		return fmt.Errorf("setting the MTU of %s: %w", p.standIn(), err)
	}
	known, err := addresses(links, nic)
	if err != nil {
		return err
	}
	for _, a := range known {
		if err := giveAddress(links, standIn, a); err != nil {
			return err
		}
	}
	return nil
}

// handedOver returns the addresses and routes that the guest takes over.
func (p Plan) handedOver(links *netlink.Handle, bridge, pod netlink.Link) (Prepared, error) {
	known, err := addresses(links, pod)
	if err != nil {
		return Prepared{}, err
	}
	done := Prepared{MTU: pod.Attrs().MTU, MAC: pod.Attrs().HardwareAddr, IPv4: firstIPv4(known)}
	switch {
	case done.IPv4.IsValid():
		done.Server = p.own.Addr()
	case p.IsOnPodNetwork():
		return Prepared{}, errNoIPv4
	default: // a network that gives no addresses leaves that to the guest
		return done, nil
	}
	kept, err := links.RouteListFiltered(netlink.FAMILY_V4,
		&netlink.Route{Table: p.routes, LinkIndex: bridge.Attrs().Index},
		netlink.RT_FILTER_TABLE|netlink.RT_FILTER_OIF)
	if err != nil {
		return Prepared{}, fmt.Errorf("listing the routes that were kept: %w", err)
	}
	for _, r := range kept {
		route := Route{Destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0)}
		if r.Dst != nil {
			ip, _ := netip.AddrFromSlice(r.Dst.IP.To4())
			bits, _ := r.Dst.Mask.Size()
			route.Destination = netip.PrefixFrom(ip, bits)
		}
		if r.Gw != nil {
			route.Gateway, _ = netip.AddrFromSlice(r.Gw.To4())
		}
		if route.Destination.Bits() == 0 && !done.Gateway.IsValid() {
			done.Gateway = route.Gateway
			continue
		}
		done.Routes = append(done.Routes, route)
	}
	return done, nil
}

// enslave makes the pod's interface a port of the bridge. Its MAC is the guest's now, so it gets another, and the
// bridge does not learn from it that the guest is out there.
func (p Plan) enslave(links *netlink.Handle, nic, bridge, pod netlink.Link) error {
	known, err := links.AddrList(nic, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("listing the addresses of %s: %w", p.nic(), err)
	}
	for i := range known {
		if err := links.AddrDel(nic, &known[i]); err != nil {
			return fmt.Errorf("removing an address from %s: %w", p.nic(), err)
		}
	}
	if nic.Attrs().HardwareAddr.String() == pod.Attrs().HardwareAddr.String() {
		mac := make(net.HardwareAddr, 6)
		_, _ = rand.Read(mac) // it never fails
		mac[0] = mac[0]&^1 | 2
		if err := links.LinkSetHardwareAddr(nic, mac); err != nil {
			return fmt.Errorf("setting the MAC of %s: %w", p.nic(), err)
		}
	}
	if nic.Attrs().MasterIndex != bridge.Attrs().Index {
		if err := links.LinkSetMaster(nic, bridge); err != nil {
			return fmt.Errorf("putting %s into %s: %w", p.nic(), p.Bridge, err)
		}
	}
	if err := links.LinkSetLearning(nic, false); err != nil {
		return fmt.Errorf("having %s not learn from %s: %w", p.Bridge, p.nic(), err)
	}
	if err := noIPv6(p.nic()); err != nil {
		return err
	}
	if err := links.LinkSetUp(nic); err != nil {
		return fmt.Errorf("setting %s up: %w", p.nic(), err)
	}
	return nil
}
