// Package dhcp is the DHCPv4 server for one guest behind masquerade: it hands out the one address that the node's
// worker has made rules for, with the pod's resolver settings, on the bridge inside the pod's network namespace.
package dhcp
