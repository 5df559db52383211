// Package node is the node worker: it polls its node's task queue, starts domains in the launchers' pods, prepares
// their network, signals the VMIs' entities how their domains change, offers /dev/kvm and /dev/net/tun to pods, and
// reports the node. It has no Kubernetes credentials, and trusts a launcher only about the launcher's own domain.
package node
