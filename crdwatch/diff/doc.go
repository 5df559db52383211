// Package diff decides what of a change in Kubernetes is worth sending, and to which workflows. A resync compares what
// runs in Temporal with what exists in Kubernetes, and sends what is missing.
//
//	differ.go         from an informer's event to the observations that are worth sending
//	others.go         which workflows an object concerns besides its own
//	entities.go       the kinds of objects that have a workflow: one descriptor each; entity.go what they do alike
//	settings.go       nodes, when the KubeVirt object changes; noderepeats.go those that are sent once more
//	kinds.go          the kinds of observations
//	causes.go         why an observation is sent, on which its delivery depends
//	record.go         what was sent; sentends.go the objects whose end was sent since the last resync
//	resync.go         what was missed; missed.go for one kind of object: those without a workflow, and the reverse
//	census.go         when to resync: the numbers of workflows and objects differ
//	sources.go        what a resync reads from Temporal and the API server
//
// Each of the following sends one kind of observation, and knows none of the others:
//
//	copies.go         instances, for their VM
//	pods.go           launcher pods, for their instance; migrationpods.go for migrations
//	nodes.go          nodes, for the instances and migrations whose pods are there
//	replicasets.go    instances, for their replica set
//	evacuees.go       how many instances have to leave a node
//	queue.go          migrations, for their queue
//	outdated.go       how many launchers are outdated, for the workload update
package diff
