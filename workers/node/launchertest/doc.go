// Package launchertest has what tests of the node worker need: the kubelet's directory of a node, and launchers in its
// pods that speak over real sockets, well or badly.
package launchertest
