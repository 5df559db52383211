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

// Process is one that runs.
type Process struct {
	PID     int
	Program string
	Started uint64 // the kernel's ticks since the machine's start: with PID it tells one process from all others
	Used    Used
}

// Used is what a process has used so far, or several together.
type Used struct {
	CPU time.Duration `json:"cpu"` // processor time
	// Resident is how many bytes are resident now; of PostgreSQL, whose processes share most of theirs, each one's
	// part.
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
			resident = int(maps.Pss) //nolint:gosec // bytes of memory fit
		}
		out = append(out, Process{PID: p.PID, Program: program(args), Started: stat.Starttime,
			Used: Used{CPU: time.Duration(stat.CPUTime() * float64(time.Second)), Resident: resident}})
	}
	return out, nil
}

// Of are those of one program.
func Of(program string, all []Process) []Process {
	return slices.DeleteFunc(slices.Clone(all), func(p Process) bool { return p.Program != program })
}

// program is what a command line runs. Kubernetes' programs are one file in the local cluster, "kube", whose first
// argument says which. A process of PostgreSQL's that serves a connection says so instead of its command line.
func program(args []string) string {
	if len(args) == 0 {
		return "" // a thread of the kernel's
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

// Since is what each program has used since before: what processes that ended in between had used by then is lost.
func Since(before, now []Process) map[string]Used {
	out := map[string]Used{}
	for _, p := range now {
		u := out[p.Program]
		u.CPU, u.Resident = u.CPU+p.Used.CPU, u.Resident+p.Used.Resident
		if i := slices.IndexFunc(before, p.same); i >= 0 {
			u.CPU -= before[i].Used.CPU
		}
		out[p.Program] = u
	}
	return out
}

func (p Process) same(q Process) bool { return p.PID == q.PID && p.Started == q.Started }

// Replaced says whether none of the processes from before is among those that run now, and another one is.
func Replaced(before, now []Process) bool {
	was := func(p Process) bool { return slices.ContainsFunc(before, p.same) }
	return len(now) > 0 && !slices.ContainsFunc(now, was)
}
