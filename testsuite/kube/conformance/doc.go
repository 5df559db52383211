// Package conformance has cases for an API server. They run against the API server in memory with the unit tests, and
// against a real kube-apiserver with the end-to-end tests, so that both behave the same.
//
// The cases use virtflow's own custom resource definitions under another API group, which no component watches, and
// pods that no scheduler and no kubelet handles.
package conformance
