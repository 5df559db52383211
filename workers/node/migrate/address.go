package migrate

import (
	"fmt"
	"net"
	"net/netip"
)

// Network is the network on which a node worker accepts streams, by KubeVirt's name.
type Network string

// The networks.
const (
	NetworkPod       Network = "Pod"
	NetworkMigration Network = "Migration"
)

// Interface is KubeVirt's name for a network interface of the node worker's pod that is for migrations only.
const Interface = "migration0"

// interfaceAddresses returns the addresses of an interface of this network namespace; nil: there is no such interface.
func interfaceAddresses(name string) ([]netip.Prefix, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", name, err)
	}
	for _, i := range all {
		if i.Name != name {
			continue
		}
		found, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("looking for addresses of %s: %w", name, err)
		}
		out := []netip.Prefix{}
		for _, a := range found {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				out = append(out, p)
			}
		}
		return out, nil
	}
	return nil, nil
}

// chooseAddress returns where to listen: on the migration network if there is one, else on the pod's. IPv4 comes before
// IPv6; addresses that are valid on one link only do not count.
func chooseAddress(migration []netip.Prefix, pod netip.Addr) (netip.Addr, Network, error) {
	var chosen netip.Addr
	for _, p := range migration {
		a := p.Addr().Unmap()
		if a.IsGlobalUnicast() && (!chosen.IsValid() || (chosen.Is6() && a.Is4())) {
			chosen = a
		}
	}
	switch {
	case chosen.IsValid():
		return chosen, NetworkMigration, nil
	case migration != nil: // the pod's network is no substitute for a configured one
		return chosen, "", fmt.Errorf("%s has no address that other nodes can reach", Interface)
	case !pod.IsValid():
		return chosen, "", fmt.Errorf("there is neither %s nor an address of the pod", Interface)
	}
	return pod, NetworkPod, nil
}

// RequiredAddress returns this node's address on the only network that guests may be moved over. Without such a network
// ("") it is invalid. It returns an error if the node has no such address: the copy would silently use the pod's
// network, or another one.
func (t *Targets) RequiredAddress(required string) (netip.Addr, error) {
	var none netip.Addr
	if required == "" {
		return none, nil
	}
	const field = "the KubeVirt object's configuration.migrations.network"
	const fix = "annotate the pods of node workers, as deploy/migration-network does"
	switch t.Network {
	case required:
	case "":
		return none, fmt.Errorf("%s is %s, but the node worker's pod on node %s requests no network as %s: %s",
			field, required, t.Node, Interface, fix)
	default:
		return none, fmt.Errorf("%s is %s, but the node worker's pod on node %s requests %s as %s: change one "+
			"of them", field, required, t.Node, t.Network, Interface)
	}
	own, err := t.Addresses(Interface)
	if err != nil {
		return none, err
	}
	const look = "look at the events of the node worker's pod for errors of Multus"
	if own == nil {
		return none, fmt.Errorf("%s is %s, but the node worker's pod on node %s has no %s: %s",
			field, required, t.Node, Interface, look)
	}
	address, _, err := chooseAddress(own, none)
	if err != nil {
		return none, fmt.Errorf("%s is %s, but on node %s %w: %s", field, required, t.Node, err, look)
	}
	return address, nil
}

// maxSourceAddresses limits what a source may have a target expect: a pod has two, and a migration network adds others.
const maxSourceAddresses = 8

// SourceAddresses returns the addresses that this node's own streams may come from at other nodes.
func (t *Targets) SourceAddresses() ([]string, error) {
	own, err := t.Addresses(Interface)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, p := range append([]netip.Prefix{netip.PrefixFrom(t.Pod, 0)}, own...) {
		if a := p.Addr().Unmap(); a.IsGlobalUnicast() && len(out) < maxSourceAddresses {
			out = append(out, a.String())
		}
	}
	return out, nil
}

// ParseAddresses returns the addresses from which a source claims to dial, without invalid ones.
func ParseAddresses(addresses []string) []netip.Addr {
	var out []netip.Addr
	for _, s := range addresses[:min(len(addresses), maxSourceAddresses)] {
		if a, err := netip.ParseAddr(s); err == nil {
			out = append(out, a.Unmap())
		}
	}
	return out
}
