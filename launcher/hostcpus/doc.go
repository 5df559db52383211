// Package hostcpus finds the host's CPUs that this process may run on, with the cores and NUMA nodes that they are of:
// those that the node's CPU manager has given the pod.
package hostcpus
