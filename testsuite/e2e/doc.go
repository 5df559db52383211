// Package e2e drives the whole system as a user does: with kubectl, against the local cluster (`make e2e`), with guests
// that QEMU boots. Each file is one story.
//
//	lifecycle_test.go a VM from creation to nothing left
//	strategies_test.go each run strategy, back-off, an edited VM, requests, deletion that orphans
//	applied_test.go   a manifest that two GitOps controllers apply again and again: part of other stories
//	replicaset_test.go scale up and down, adopt, pause, fifty replicas at once
//	controls_test.go  the controls, with temporal and tctl
//	probes_test.go    probes, the guest agent, the labels of nodes
//	guest_test.go     power-off and reboot from within the guest
//	network_test.go   pods, VMs and Services reach each other
//	tenant_test.go    permissions of a launcher pod, and who may create one
//	crash_test.go     kill -9 of every process while a VM starts and while it runs
//	node_test.go      cordon, drain, node worker or kubelet gone and back, node out of service; deletions by force
//	descheduler_test.go the descheduler's own program has a guest moved off its node
//	loadgenerator_test.go KubeVirt's own load generator creates, replaces and deletes VMs and VMIs
//	clusterapi_test.go Cluster API, with its provider for KubeVirt, has VMs as machines
//	workloadupdate_test.go a new launcher image reaches running guests
//	budget_test.go, deletion_test.go the cost of a start, a stop and a deletion, counted
//	conformance_test.go the real API server, with the cases of testsuite/kube
//	machine_test.go, host_test.go what the stories share
package e2e
