// Command scale loads the local cluster's real control plane (API server, Temporal, virtflow's own processes) with
// many VMs (with --vmis, VMIs by themselves) on simulated nodes, at twice the rate that it can do, and checks that this
// makes things slow but neither fails, repeats nor loses anything.
// Only the nodes are simulated: no guest runs, so that what is measured is the control plane.
//
// A run has three stages, each in a namespace of its own. What the first two show is what the third is held to:
//
//	rest      a few VMs, one at a time: what each step costs the API server, and which events it records
//	capacity  as many VMs in hand as the machine needs to be busy: how many a second it can do
//	load      many VMs at twice that rate, whatever becomes of those before; then all VMIs are deleted, which come
//	          again (unless --replace=false, or --vmis), and then everything
//
// With --kubevirt it loads KubeVirt's own controllers (make kubevirt) with the same VMs on the same simulated nodes,
// and measures the same; what virtflow promises is not checked then.
//
// Before all are deleted, with --idle nothing is asked for while they run, to see what they cost then; and with
// --restarts the programs of the control plane are killed in turn.
//
// A table says what was found. The command fails when a property does not hold.
//
//	main.go      the flags
//	run.go       the course of a run
//	plane.go     the control plane that is loaded: virtflow.go or kubevirt.go
//	stage.go     VMs of one namespace: made, replaced, deleted
//	object.go    what is made: VMs, or VMIs by themselves
//	machine.go   what is known of each VM, and what is waited for
//	idle.go      what VMs cost with nothing asked for
//	restart.go   programs that are killed while VMs run
//	audit.go     requests to the API server, counted from its audit log
//	legs.go      when, after a user's request, other requests about the same machine were answered
//	events.go    Kubernetes events, counted
//	lease.go     whether crdwatch has kept its lease
//	usage.go     what each program has used of the machine
//	report.go    what was measured, as a file
//	findings.go  the properties, and the table
//	nodes.go     simulated nodes: Node objects and their leases
//	kubelet.go   simulated kubelets: pods that are bound to those nodes run, get ready and end
//	virtflow.go  virtflow: its programs, what a node's worker answers, and what it promises
//	kubevirt.go  KubeVirt: its programs, and the guests on the simulated nodes
//	handler.go   virt-handler on a simulated node: what it writes about a VMI
package main
