// Package dhcp has the DHCP and DHCPv6 servers for one guest. Each assigns the one address for which the node worker
// has made rules, with the pod's resolver settings, on the bridge inside the pod's network namespace.
package dhcp
