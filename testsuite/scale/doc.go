// Command scale loads the local cluster's real control plane (API server, Temporal, virtflow's own processes) with
// many VMs (with --vmis, standalone VMIs) on simulated nodes, at twice the rate that it can do, and checks that this
// makes it slow, but that nothing fails, is repeated or is lost.
// Only the nodes are simulated: no guest runs, so the measurements are the control plane's.
//
// A run has three stages, each in a namespace of its own. The third is compared with the first two:
//
//	rest      a few VMs, one at a time: the requests and events of each step
//	capacity  enough VMs at a time to keep the machine busy: how many a second it can start
//	load      many VMs at twice that rate, without waiting for the earlier ones; then all VMIs are deleted, which come
//	          again (unless --replace=false, or --vmis), and then everything
//
// With --kubevirt it loads KubeVirt's own controllers (make kubevirt) with the same VMs on the same simulated nodes,
// and measures the same; virtflow's properties are not checked then.
//
// Before all are deleted, with --idle they run for a time without any request, to measure what they cost then; with
// --failing-moves all guests are evicted, and no target pod lives; and with --restarts the programs of the control
// plane are killed in turn.
//
// A table has the results. The command fails when a property does not hold.
//
//	main.go      the flags
//	run.go       the course of a run
//	plane.go     the control plane under load: virtflow.go or kubevirt.go
//	stage.go     VMs of one namespace: created, replaced, deleted
//	object.go    what is created: VMs, or standalone VMIs
//	machine.go   the state of each VM, and what a step waits for
//	idle.go      what idle VMs cost
//	moves.go     a drain whose target pods fail
//	restart.go   programs that are killed while VMs run
//	audit.go     requests to the API server, counted from its audit log
//	legs.go      when, after a user's request, other requests about the same machine were answered
//	events.go    Kubernetes events, counted
//	lease.go     whether crdwatch has kept its lease
//	usage.go     the resource usage of each program
//	report.go    the measurements, as a file
//	findings.go  the properties, and the table
//	nodes.go     simulated nodes: Node objects and their leases
//	kubelet.go   simulated kubelets: pods that are bound to those nodes run, get ready and end
//	virtflow.go  virtflow: its programs, the answers of a node worker, and its properties
//	kubevirt.go  KubeVirt: its programs, and the guests on the simulated nodes
//	handler.go   virt-handler on a simulated node: what it writes about a VMI
package main
