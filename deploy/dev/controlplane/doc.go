// Package controlplane says how the processes on the host are run: etcd, the
// Kubernetes control plane, the nodes as a whole, and Temporal. It makes the
// list that the supervisor keeps.
package controlplane
