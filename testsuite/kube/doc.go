// Package kube is a Kubernetes API server in memory, for tests that run the real clients, activities and informers
// thousands of times. It has the real one's semantics where virtflow depends on them, and package conformance holds it
// to that: the same cases run against both.
//
//	server.go       options, faults, who is told of changes
//	transport.go    requests and answers as HTTP has them
//	verbs.go, query.go   what is asked for: the verb, the resource, the options
//	resources.go, schema.go   what there is, and which rules and which schema each has
//	store.go, object.go, change.go   what is written down, and what becomes of it
//	create.go, update.go, delete.go, subresources.go   the verbs that write
//	quota.go        how many pods a namespace may have
//	collect.go      the garbage collector and the namespace controller
//	watch.go        watch streams
//	snapshot.go     putting etcd back to an earlier copy
//	read.go         typed access for tests
//	events.go       where events go in tests
//
// There are no controllers but those of collect.go: scheduler and kubelet are played by the test.
package kube
