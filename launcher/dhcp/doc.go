// Package dhcp has the DHCP and DHCPv6 servers for one guest: each hands out the one address that the node's worker has
// made rules for, with the pod's resolver settings, on the bridge inside the pod's network namespace.
package dhcp
