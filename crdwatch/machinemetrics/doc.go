// Package machinemetrics exports KubeVirt's metrics of VMs, VMIs and migrations, and virtflow's of their failures. They
// are computed from what crdwatch's leader watches; other processes export none of them.
//
//	machines.go    VMs, VMIs and failures
//	migrations.go  migrations
//	runtimes.go    container runtimes with known vulnerabilities
//	phases.go      what both need to measure the time to a phase
package machinemetrics
