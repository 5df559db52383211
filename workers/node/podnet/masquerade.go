package podnet

import (
	"net/netip"

	"github.com/vishvananda/netlink"
)

// masquerade works in the network namespace of the calling thread. The guest has an address of each family that the pod
// has one of; a pod without any is taken for one with IPv4.
func (p Plan) masquerade(links *netlink.Handle) (Prepared, error) {
	pod, err := podLink(links, p.PodInterface)
	if err != nil {
		return Prepared{}, err
	}
	known, err := addresses(links, pod)
	if err != nil {
		return Prepared{}, err
	}
	var ipv4, ipv6 []netip.Addr
	for _, a := range known {
		if a.Addr().Is4() {
			ipv4 = append(ipv4, a.Addr())
		} else {
			ipv6 = append(ipv6, a.Addr())
		}
	}
	hasIPv6 := len(ipv6) > 0
	hasIPv4 := len(ipv4) > 0 || !hasIPv6

	done := Prepared{MTU: pod.Attrs().MTU}
	bridge, err := ensureBridge(links, p.Bridge, bridgeMAC)
	if err != nil {
		return Prepared{}, err
	}
	settings := forMasquerade(p.Bridge)
	var tables []table
	if hasIPv4 {
		tables = append(tables, p.translation(p.IPv4, ipv4...))
		done.IPv4, done.Gateway = guestOf(p.IPv4), gatewayOf(p.IPv4).Addr()
		done.Server = done.Gateway
		if err := giveAddress(links, bridge, gatewayOf(p.IPv4)); err != nil {
			return Prepared{}, err
		}
	}
	if hasIPv6 {
		tables = append(tables, p.translation(p.IPv6, ipv6...))
		done.IPv6 = guestOf(p.IPv6)
		settings = append(settings, sysctl{"ipv6/conf/all/forwarding", "1"})
		if err := giveAddress(links, bridge, gatewayOf(p.IPv6)); err != nil {
			return Prepared{}, err
		}
	}
	if err := setUp(links, bridge, done.MTU); err != nil {
		return Prepared{}, err
	}
	if err := p.ensureTap(links, done.MTU, bridge); err != nil {
		return Prepared{}, err
	}
	if err := ensureSysctls(settings); err != nil {
		return Prepared{}, err
	}
	if err := routeOnly(); err != nil {
		return Prepared{}, err
	}
	return done, applyRules(tables...)
}
