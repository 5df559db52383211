// Package e2e drives the whole system as a user does: with kubectl, against the local cluster (`make e2e`), with guests
// that QEMU boots. Each file is one story.
//
//	lifecycle_test.go a VM from creation to nothing left
//	strategies_test.go each run strategy, back-off, an edited VM, requests, deletion that orphans
//	replicaset_test.go scale up and down, adopt, pause, fifty at once
//	controls_test.go  the manual controls, with temporal and tctl
//	probes_test.go    probes, the guest agent, what nodes say that they offer
//	guest_test.go     what the guest does by itself: power-off and reboot
//	network_test.go   pods, VMs and Services reach each other
//	tenant_test.go    what a launcher pod may, and who may make one
//	crash_test.go     kill -9 of every process while a VM starts and while it runs
//	node_test.go      cordon, drain, node worker gone, kubelet gone and back, node out of service; deletions by force and of a namespace
//	workloadupdate_test.go a new launcher image reaches running guests
//	budget_test.go, deletion_test.go what a start, a stop and a deletion cost, counted
//	conformance_test.go the real API server against the cases that testsuite/kube is held to
//	rig_test.go, host_test.go what the stories share
package e2e
