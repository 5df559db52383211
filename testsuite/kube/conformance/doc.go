// Package conformance says what virtflow relies on an API server for, as cases that run against any: against the one in
// memory with the unit tests, and against a real kube-apiserver with the end-to-end tests. What the one in memory does
// is thereby what the real one does.
//
// The cases use virtflow's own custom resource definitions under another API group, which nobody watches, and pods that
// no scheduler and no kubelet looks at.
package conformance
