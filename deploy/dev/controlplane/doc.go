// Package controlplane describes the processes on the host: etcd, the Kubernetes control plane, the nodes as a whole,
// and Temporal. It makes the list that the supervisor keeps running.
package controlplane
