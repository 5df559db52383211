package processes

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Postgres is the program of all processes of a PostgreSQL server.
const Postgres = "postgres"

// Process is a running process.
type Process struct {
	PID     int
	Program string
	Started uint64 // in the kernel's ticks since boot: with PID it identifies a process
	Used    Used
}

// Used is the resource usage so far of one process, or of several.
type Used struct {
	CPU time.Duration `json:"cpu"` // processor time
	// Resident is the resident memory in bytes; for PostgreSQL, whose processes share most of theirs, the proportional
	// part of each.
	Resident int `json:"resident"`
}

// Running lists the processes of some programs.
func Running(programs ...string) ([]Process, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("looking for processes: %w", err)
	}
	var out []Process
	for _, p := range all {
		args, err := p.CmdLine()
		if err != nil || !slices.Contains(programs, program(args)) {
			continue
		}
		stat, err := p.Stat()
		if err != nil {
			continue // it has ended
		}
		resident := stat.ResidentMemory()
		if program(args) == Postgres {
			maps, err := p.ProcSMapsRollup()
			if err != nil {
				continue // it has ended
			}
			resident = int(maps.Pss) // bytes of memory fit
		}
		out = append(out, Process{PID: p.PID, Program: program(args), Started: stat.Starttime,
			Used: Used{CPU: time.Duration(stat.CPUTime() * float64(time.Second)), Resident: resident}})
	}
	return out, nil
}

// Of returns the processes of one program.
func Of(program string, all []Process) []Process {
	return slices.DeleteFunc(slices.Clone(all), func(p Process) bool { return p.Program != program })
}

// program returns the program of a command line. In the local cluster, Kubernetes' programs are one file, "kube", with
// the name as its first argument. A process of PostgreSQL's that serves a connection replaces its command line by a
// description.
func program(args []string) string {
	if len(args) == 0 {
		return "" // a kernel thread
	}
	if strings.HasPrefix(args[0], Postgres+": ") {
		return Postgres
	}
	name := filepath.Base(args[0])
	if name == "kube" && len(args) > 1 {
		return args[1]
	}
	return name
}

// Since returns what each program has used since before. The usage of processes that ended in between is lost.
func Since(before, now []Process) map[string]Used {
	out := map[string]Used{}
	for _, p := range now {
		u := out[p.Program]
		u.CPU, u.Resident = u.CPU+p.Used.CPU, u.Resident+p.Used.Resident
		if i := slices.IndexFunc(before, p.isSame); i >= 0 {
			u.CPU -= before[i].Used.CPU
		}
		out[p.Program] = u
	}
	return out
}

func (p Process) isSame(q Process) bool { return p.PID == q.PID && p.Started == q.Started }

// Replaced reports whether none of the processes from before runs now, and another one does.
func Replaced(before, now []Process) bool {
	was := func(p Process) bool { return slices.ContainsFunc(before, p.isSame) }
	return len(now) > 0 && !slices.ContainsFunc(now, was)
}
