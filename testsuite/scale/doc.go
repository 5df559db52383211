// Command scale loads the local cluster's real control plane (API server, Temporal, virtflow's own processes) with many machines on simulated
// nodes, and measures what comes of it: how long starts take, how many fail, what they cost the API server, and how long it takes until all
// are gone. Nothing in it judges: a figure says more about the machine than about the code, unless it is a count or a ratio.
//
//	main.go     the flags, and the course of a run
//	nodes.go    simulated nodes: Node objects, their leases, and what a node's worker answers
//	kubelet.go  simulated kubelets: pods that are bound to those nodes run, get ready and end
//	load.go     machines are made at a rate, watched, and deleted
//	calls.go    requests to the API server, counted from its audit log
//
// Only the nodes are simulated. No guest runs, so that what is measured is the control plane.
package main
