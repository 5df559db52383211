// Package kube is a Kubernetes API server in memory, for tests that run the real clients, activities and informers thousands of times. It
// has the real one's semantics where virtflow depends on them, and package conformance holds it to that: the same cases run against both.
//
//	server.go       requests, faults, who is told of changes
//	resources.go    what there is, and which rules each has
//	create.go, update.go, patch.go, delete.go, subresources.go   the verbs
//	collect.go      the garbage collector and the namespace controller
//	watch.go        watch streams
//	read.go         typed access for tests
//
// There are no controllers but those of collect.go: scheduler and kubelet are played by the test.
package kube
