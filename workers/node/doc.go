// Package node is the node worker: it polls its node's task queue, starts domains in the launchers' pods, prepares
// their network, tells the VMIs' entities how their domains change, offers /dev/kvm and /dev/net/tun to pods, and
// reports the node. It has no Kubernetes credentials and believes no launcher anything but how its own domain is.
package node
