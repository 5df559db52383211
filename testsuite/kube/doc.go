// Package kube is a Kubernetes API server in memory, for tests that run the real clients, activities and informers
// thousands of times. It has the real one's semantics where virtflow depends on them, and package conformance runs the
// same cases against both.
//
//	server.go       options, faults, listeners
//	transport.go    requests and answers over HTTP
//	verbs.go, query.go   the request: its verb, resource and options
//	resources.go, schema.go   the resources, with their rules and schemas
//	store.go, object.go, change.go   stored objects, and their changes
//	create.go, update.go, delete.go, subresources.go   the verbs that write
//	quota.go        the limit of pods in a namespace
//	collect.go      the garbage collector and the namespace controller
//	watch.go        watch streams
//	snapshot.go     putting etcd back to an earlier copy
//	read.go         typed access for tests
//	events.go       a recorder of events for tests
//
// There are no controllers but those of collect.go: the test simulates scheduler and kubelet.
package kube
