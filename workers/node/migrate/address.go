package migrate

import (
	"fmt"
	"net"
	"net/netip"
)

// Network says which of its networks a node worker takes streams on. The names are KubeVirt's.
type Network string

// The networks.
const (
	NetworkPod       Network = "Pod"
	NetworkMigration Network = "Migration"
)

// migrationInterface is KubeVirt's name for a network interface of the node worker's pod that is for migrations only.
const migrationInterface = "migration0"

// interfaceAddresses are those of an interface of this network namespace; nil: there is no such interface.
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

// choose is where to listen: on the migration network if there is one, else on the pod's. IPv4 comes before IPv6,
// addresses that are good on one link only do not count.
func choose(migration []netip.Prefix, pod netip.Addr) (netip.Addr, Network, error) {
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
	case migration != nil: // the pod's network is no substitute for one that somebody has asked for
		return chosen, "", fmt.Errorf("%s has no address that other nodes can reach", migrationInterface)
	case !pod.IsValid():
		return chosen, "", fmt.Errorf("there is neither %s nor an address of the pod", migrationInterface)
	}
	return pod, NetworkPod, nil
}
