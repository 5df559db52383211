// Package cluster is what the workflow of one entity meets, for tests of that workflow: the real activities on a
// Kubernetes in memory (testsuite/kube), crdwatch, and what tests simulate: users, the kubelet, the node's
// launcher, the other entities. Every object has the name "web" in the namespace "default", and there is one node.
//
//	cluster.go   activities, and what crdwatch sends to the workflow
//	user.go      what users do to VMs, instances and replica sets
//	node.go      the kubelet, and a launcher with its domain
//	entity.go    what the entity of an instance writes, for tests of those above it
package cluster
