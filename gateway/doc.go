// Package gateway is the only way from nodes to Temporal: a filtering gRPC proxy. It knows a node by the
// service-account token of the node worker's pod, which the API server has bound to that node, and lets it poll its own
// task queue, answer the tasks that it was given there, and signal its own entity and those of the VMIs whose launcher
// pods are on it. Everything else is refused and counted.
//
//	options.go, serve.go   flags; the process put together
//	proxy.go      what happens to each call, in order
//	caller.go     which node calls: tokens, reviewed by the API server
//	rules.go      the table of methods, and what a request of each may contain
//	signals.go    which workflow a node may send which signal
//	results.go    results and failures of activities, encoded again
//	recent.go     signals that Temporal has accepted in the last minutes
//	budget.go     how much one node may write into Temporal's database
//	tasks.go      task tokens, sealed for the node that they were given to
//	pods.go       which launcher pods are on which node
//	workers.go    which pods of node workers exist, and how long a reviewed token counts
//	refusal.go    reasons for refusals, and the metrics that count them
//	owntoken.go   ends the gateway when the API server rejects its own token
//	connections.go   limits of connections, by address until one is authenticated, then by node
//	inflight.go   in-flight limits of calls
//	reviewlimit.go   rate limits of TokenReviews
//
// Nothing is kept that a restart would lose: task tokens carry their own proof, made with a key that all replicas
// share.
package gateway
