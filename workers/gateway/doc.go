// Package gateway is the only door from nodes to Temporal: a filtering gRPC proxy. It knows a node by the
// service-account token of the node worker's pod, which the API server has bound to that node, and lets it poll its own
// task queue, answer the tasks that it was given there, and signal its own entity and those of the VMIs whose launcher
// pods are on it. Everything else is refused and counted.
//
//	options.go, serve.go   flags; the process put together
//	proxy.go      what happens to each call, in order
//	caller.go     whose call it is: tokens, reviewed by the API server
//	rules.go      the table of methods, and what each may say
//	signals.go    which workflow may be told what
//	tasks.go      task tokens, sealed for the node that they were given to
//	pods.go       which launcher pods are on which node
//	refusal.go    reasons, and how often each was given
//	inflight.go   what one node, and one address, may have open at a time
//	reviewlimit.go   how often the API server is asked about tokens
//	transport.go  calls that gRPC itself ends
//
// Nothing is kept that a restart would lose: task tokens carry their own proof, made with a key that all replicas
// share.
package gateway
