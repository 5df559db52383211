// Package node is one node of the development cluster: a process with network, mount, PID and UTS namespaces of its
// own, joined to the others by a bridge. The host's side of it (host.go) connects the veth; inside, init.go is PID 1
// and agent.go runs containerd, kubelet and kube-proxy. When PID 1 ends, everything of the node ends with it, as if its
// power had been cut.
package node
