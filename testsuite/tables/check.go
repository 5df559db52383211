package tables

import (
	"fmt"
	"slices"

	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/migration"
	"github.com/virtflow/virtflow/workflows/vm"
	"github.com/virtflow/virtflow/workflows/vmi"
)

// strategies, situations and requests return all values; a table that lacks one has a hole.
func strategies() []runstrategy.Strategy {
	return []runstrategy.Strategy{runstrategy.Always, runstrategy.RerunOnFailure, runstrategy.Manual,
		runstrategy.Halted, runstrategy.Once}
}

func situations() []runstrategy.Situation {
	return []runstrategy.Situation{runstrategy.Absent, runstrategy.Alive, runstrategy.Deleting, runstrategy.Succeeded,
		runstrategy.Failed}
}

func requests() []runstrategy.Request {
	return []runstrategy.Request{runstrategy.NoRequest, runstrategy.StartRequest, runstrategy.StopRequest,
		runstrategy.RestartRequest}
}

func phases() []vmi.Phase {
	return []vmi.Phase{
		vmi.PhaseUnset, vmi.PhasePending, vmi.PhaseScheduling, vmi.PhaseScheduled, vmi.PhaseRunning, vmi.PhaseSucceeded,
		vmi.PhaseFailed,
	}
}

// CheckStrategies returns the errors of a table of run strategies: holes, rows that are never used, and duplicate rows.
func CheckStrategies(rows []runstrategy.Row) (wrong []string) {
	type key struct {
		strategy  runstrategy.Strategy
		situation runstrategy.Situation
		request   runstrategy.Request
	}
	seen := map[key]bool{}
	for _, r := range rows {
		k := key{r.Strategy, r.Situation, r.Request}
		if seen[k] {
			wrong = append(wrong, fmt.Sprintf("%v is there twice", k))
		}
		seen[k] = true
		if !slices.Contains(strategies(), r.Strategy) || !slices.Contains(situations(), r.Situation) ||
			!slices.Contains(requests(), r.Request) {
			wrong = append(wrong, fmt.Sprintf("%v is never looked up", k))
		}
	}
	for _, st := range strategies() {
		for _, sit := range situations() {
			if !seen[key{st, sit, runstrategy.NoRequest}] {
				wrong = append(wrong, fmt.Sprintf("%s, %s: no row decides", st, sit))
			}
		}
	}
	return wrong
}

// CheckPhases returns the errors of a table of an instance's phases: a phase that no rule leads to, one that no rule
// leads out of, a final phase with a rule out of it, a rule without name.
func CheckPhases(rules []vmi.Rule) []string { return check(instanceArrows(rules), phases()) }

// CheckMigrationPhases does the same for a migration's phases.
func CheckMigrationPhases(rules []migration.Rule) []string {
	return check(migrationArrows(rules), migration.Phases())
}

func check[P phase](rules []arrow[P], all []P) (wrong []string) {
	reached := map[P]bool{"": true}
	for range rules {
		for _, r := range rules {
			for _, from := range r.from {
				reached[r.to] = reached[r.to] || reached[from]
			}
		}
	}
	leaves := map[P]bool{}
	for _, r := range rules {
		if r.name == "" || !r.decides {
			wrong = append(wrong, fmt.Sprintf("a rule to %q has no name or no condition", r.to))
		}
		for _, from := range r.from {
			leaves[from] = true
			if from.Final() {
				wrong = append(wrong, fmt.Sprintf("%v is final, but %q leads out of it", from, r.name))
			}
			if from == r.to {
				wrong = append(wrong, fmt.Sprintf("%q leads from %v to itself", r.name, from))
			}
			if !slices.Contains(all, from) {
				wrong = append(wrong, fmt.Sprintf("%q leads out of %q, which is no phase", r.name, from))
			}
		}
		if !slices.Contains(all, r.to) {
			wrong = append(wrong, fmt.Sprintf("%q leads to %q, which is no phase", r.name, r.to))
		}
	}
	for _, p := range all {
		if !reached[p] {
			wrong = append(wrong, fmt.Sprintf("nothing leads to %q", p))
		}
		if !p.Final() && !leaves[p] {
			wrong = append(wrong, fmt.Sprintf("nothing leads out of %q", p))
		}
	}
	return wrong
}

// CheckVerdicts returns the errors of the table of verdicts: a combination of both ends that no row decides, and a row
// that decides none.
func CheckVerdicts(rows []migration.VerdictRule) (wrong []string) {
	used := make([]bool, len(rows))
	for _, s := range migration.Sources() {
		for _, t := range migration.Targets() {
			i := slices.IndexFunc(rows, func(r migration.VerdictRule) bool {
				return slices.Contains(r.Source, s) && slices.Contains(r.Target, t)
			})
			if i < 0 {
				wrong = append(wrong, fmt.Sprintf("source %s, target %s: no row decides", s, t))
				continue
			}
			used[i] = true
		}
	}
	for i, r := range rows {
		if !used[i] {
			wrong = append(wrong, fmt.Sprintf("row %d (%s) is never looked up", i+1, r.Why))
		}
	}
	return wrong
}

// kubevirtStatuses returns all printable statuses of KubeVirt's API.
func kubevirtStatuses() []kubevirt.VirtualMachinePrintableStatus {
	return []kubevirt.VirtualMachinePrintableStatus{
		kubevirt.VirtualMachineStatusStopped, kubevirt.VirtualMachineStatusProvisioning,
		kubevirt.VirtualMachineStatusStarting,
		kubevirt.VirtualMachineStatusRunning, kubevirt.VirtualMachineStatusPaused,
		kubevirt.VirtualMachineStatusStopping,
		kubevirt.VirtualMachineStatusTerminating, kubevirt.VirtualMachineStatusCrashLoopBackOff,
		kubevirt.VirtualMachineStatusMigrating,
		kubevirt.VirtualMachineStatusUnknown, kubevirt.VirtualMachineStatusUnschedulable,
		kubevirt.VirtualMachineStatusErrImagePull,
		kubevirt.VirtualMachineStatusImagePullBackOff, kubevirt.VirtualMachineStatusPvcNotFound,
		kubevirt.VirtualMachineStatusDataVolumeError,
		kubevirt.VirtualMachineStatusWaitingForVolumeBinding, kubevirt.VirtualMachineStatusWaitingForReceiver,
	}
}

// CheckPrintables returns the errors of the table of printable statuses: a status that only KubeVirt or only the table
// has; a row with neither a condition nor a feature that it awaits; a last row that does not match the rest.
func CheckPrintables(rows []vm.Printable) (wrong []string) {
	known := kubevirtStatuses()
	var have []string
	for i, r := range rows {
		if slices.Contains(have, r.Status) {
			wrong = append(wrong, r.Status+" is there twice")
		}
		have = append(have, r.Status)
		if !slices.Contains(known, kubevirt.VirtualMachinePrintableStatus(r.Status)) {
			wrong = append(wrong, r.Status+" is no printable status of KubeVirt's")
		}
		if (r.When == nil) == (r.Awaits == "") {
			wrong = append(wrong, r.Status+" must have either a condition or something that it awaits")
		}
		if i == len(rows)-1 && (r.When == nil || !r.When(&vm.State{})) {
			wrong = append(wrong, r.Status+" is last, but does not match the rest")
		}
	}
	for _, s := range known {
		if !slices.Contains(have, string(s)) {
			wrong = append(wrong, string(s)+" is missing")
		}
	}
	return wrong
}
