package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/prometheus/procfs"
)

// programs are those of the control plane whose use of the machine is measured, where they run on this one.
var programs = []string{"kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "virtflow-temporal",
	"control-worker", "crdwatch", "api-server"}

// usage is what each program has used, all its processes together.
type usage map[string]used

type used struct {
	CPU      float64 `json:"cpuSeconds"`
	Resident int     `json:"residentBytes"`
}

// measure looks at every process of this machine.
func measure() (usage, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("looking for processes: %w", err)
	}
	out := usage{}
	for _, p := range all {
		path, err := p.Executable()
		if err != nil {
			continue // a thread of the kernel's, or it has ended
		}
		name := filepath.Base(path)
		stat, err := p.Stat()
		if err != nil || !slices.Contains(programs, name) {
			continue
		}
		u := out[name]
		u.CPU, u.Resident = u.CPU+stat.CPUTime(), u.Resident+stat.ResidentMemory()
		out[name] = u
	}
	return out, nil
}

// since is what has been used since then, and what is resident now.
func (u usage) since(before usage) usage {
	out := usage{}
	for name, now := range u {
		out[name] = used{CPU: now.CPU - before[name].CPU, Resident: now.Resident}
	}
	return out
}

// print writes what each program has used for n VMs.
func (u usage) print(out io.Writer, n int) {
	for _, name := range slices.Sorted(maps.Keys(u)) {
		fmt.Fprintf(out, "scale:   %8.1f ms of processor time for each by %s, which has %d MiB\n",
			1000*u[name].CPU/float64(n), name, u[name].Resident>>20)
	}
}
