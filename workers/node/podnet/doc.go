// Package podnet gives the guest of a pod its network in KubeVirt's ways, in the pod's own network namespace. Behind
// masquerade the guest has private addresses on a bridge of its own, and the pod's addresses are translated to and from
// those. With the binding bridge the guest takes the pod's place: the pod's interface becomes a port of the bridge, and
// its address and MAC are the guest's; so it is on each network that the pod has beside its own. Either way the guest's
// end is a tap device that the launcher's user owns, and what the guest sends from an address that is not its own is
// dropped.
//
// Everything is done through netlink and nftables, with no program run, and doing it again changes nothing. It goes
// away with the pod's network namespace, which is also all that remembers it.
package podnet
