// Package hostcpus finds the host CPUs on which this process may run, with their cores and NUMA nodes: those that the
// node's CPU manager has given to the pod.
package hostcpus
