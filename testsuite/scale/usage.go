package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/virtflow/virtflow/testsuite/processes"
)

// sharedPrograms are Kubernetes' own programs, and this one, which simulates the nodes, watches, and reads the audit
// log. Like those of the control plane they are measured if they run on this machine.
var sharedPrograms = []string{"kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "scale"}

// unmeasured returns the programs without a process, except Temporal's database, which not every Temporal has.
func unmeasured(programs []string, found []processes.Process) []string {
	return slices.DeleteFunc(slices.Clone(programs), func(name string) bool {
		runs := slices.ContainsFunc(found, func(p processes.Process) bool { return p.Program == name })
		return runs || name == processes.Postgres
	})
}

// printUsage writes the resource usage of each program for n VMs.
func printUsage(out io.Writer, used map[string]processes.Used, n int) {
	for _, name := range slices.Sorted(maps.Keys(used)) {
		fmt.Fprintf(out, "scale:   %8.1f ms of processor time for each by %s, which has %d MiB\n",
			1000*used[name].CPU.Seconds()/float64(n), name, used[name].Resident>>20)
	}
}
