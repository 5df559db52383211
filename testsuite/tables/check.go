package tables

import (
	"fmt"
	"slices"

	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/runstrategy"
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

// CheckPhases says what is wrong with a table of phases: one that nothing leads to, one that nothing leads out of, one
// that is left although it is final, a rule without words.
func CheckPhases(rules []vmi.Rule) (wrong []string) {
	reached := map[vmi.Phase]bool{vmi.PhaseUnset: true}
	for range rules {
		for _, r := range rules {
			for _, from := range r.From {
				reached[r.To] = reached[r.To] || reached[from]
			}
		}
	}
	leaves := map[vmi.Phase]bool{}
	for _, r := range rules {
		if r.Name == "" || r.When == nil {
			wrong = append(wrong, fmt.Sprintf("a rule to %q has no name or no condition", r.To))
		}
		for _, from := range r.From {
			leaves[from] = true
			if from.Final() {
				wrong = append(wrong, fmt.Sprintf("%s is final, but %q leads out of it", from, r.Name))
			}
			if from == r.To {
				wrong = append(wrong, fmt.Sprintf("%q leads from %s to itself", r.Name, from))
			}
			if !slices.Contains(phases(), from) {
				wrong = append(wrong, fmt.Sprintf("%q leads out of %q, which is no phase", r.Name, from))
			}
		}
		if !slices.Contains(phases(), r.To) {
			wrong = append(wrong, fmt.Sprintf("%q leads to %q, which is no phase", r.Name, r.To))
		}
	}
	for _, p := range phases() {
		if !reached[p] {
			wrong = append(wrong, fmt.Sprintf("nothing leads to %q", p))
		}
		if !p.Final() && !leaves[p] {
			wrong = append(wrong, fmt.Sprintf("nothing leads out of %q", p))
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
