// Package machinemetrics exports KubeVirt's metrics of VMs, VMIs and migrations, and virtflow's of their failures. They
// are computed from what crdwatch's leader watches; other processes export none of them.
//
//	machines.go    VMs, VMIs and failures
//	migrations.go  migrations
//	parts.go       CPUs, memory, disks, interfaces and labels of VMs and VMIs
//	resources.go   the CPUs, memory and disks of a VM
//	interfaces.go  the interfaces and labels of a VM or VMI
//	runtimes.go    container runtimes with known vulnerabilities
//	phases.go      what both need to measure the time to a phase
package machinemetrics
