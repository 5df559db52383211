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

// strategies, situations and requests are all that there are; a table that lacks one has a hole.
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

// CheckStrategies says what is wrong with a table of run strategies: holes, rows that are never looked up, rows that
// say the same twice.
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
			wrong = append(wrong, fmt.Sprintf("%v stands there twice", k))
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

// CheckPhases says what is wrong with a table of an instance's phases: one that nothing leads to, one that nothing
// leads out of, one that is left although it is final, a rule without words.
func CheckPhases(rules []vmi.Rule) []string { return check(instanceArrows(rules), phases()) }

// CheckMigrationPhases says the same of a migration's.
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

// CheckVerdicts says what is wrong with the table of verdicts: a combination of both ends that no row decides, and a
// row that decides none.
func CheckVerdicts(rows []migration.Ruling) (wrong []string) {
	used := make([]bool, len(rows))
	for _, s := range migration.Sources() {
		for _, t := range migration.Targets() {
			i := slices.IndexFunc(rows, func(r migration.Ruling) bool {
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

// kubevirtStatuses are all printable statuses that KubeVirt's API knows.
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

// CheckPrintables says what is wrong with the table of printable statuses: one that KubeVirt has and it lacks, or the
// other way; a row that neither can hold nor says what it awaits; a last row that does not catch what is left.
func CheckPrintables(rows []vm.Printable) (wrong []string) {
	known := kubevirtStatuses()
	var have []string
	for i, r := range rows {
		if slices.Contains(have, r.Status) {
			wrong = append(wrong, r.Status+" stands there twice")
		}
		have = append(have, r.Status)
		if !slices.Contains(known, kubevirt.VirtualMachinePrintableStatus(r.Status)) {
			wrong = append(wrong, r.Status+" is no printable status of KubeVirt's")
		}
		if (r.When == nil) == (r.Awaits == "") {
			wrong = append(wrong, r.Status+" must have either a condition or something that it awaits")
		}
		if i == len(rows)-1 && (r.When == nil || !r.When(&vm.State{})) {
			wrong = append(wrong, r.Status+" is last, but does not catch what is left")
		}
	}
	for _, s := range known {
		if !slices.Contains(have, string(s)) {
			wrong = append(wrong, string(s)+" is missing")
		}
	}
	return wrong
}
