// Package podnet gives the guest of a pod its network in KubeVirt's way of masquerade: in the pod's own network
// namespace there is a bridge with a tap device that the launcher's user owns, the guest has a private address behind
// it, and the pod's address is translated to and from that. Everything is done through netlink and nftables, with no
// program run, and doing it again changes nothing. It goes away with the pod's network namespace.
package podnet
