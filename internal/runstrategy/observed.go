package runstrategy

import (
	"slices"

	"github.com/virtflow/virtflow/workflows/contract"
)

// finalizerOrphan is on an object that is being deleted with its dependents orphaned
// (metav1.FinalizerOrphanDependents).
const finalizerOrphan = "orphan"

// Desired is what a VM asks for. vmi is its instance (nil: there is none), and last the run strategy that the VM's
// status told last ("": none), by which a strategy is new or not. ok is false for a strategy that nothing is done
// about.
func Desired(vm *contract.VMObservation, vmi *contract.VMIObservation, last string) (a Action, ok bool) {
	situation := SituationOf(vmi)
	if Deleted(vm) {
		if Orphans(vm) || situation == Absent || situation == Deleting {
			return Action{}, true
		}
		return Action{Operation: contract.OperationStop, Why: "the VirtualMachine is being deleted"}, true
	}
	a, ok = Lookup(Strategy(vm.RunStrategy), situation, RequestOf(vm, vmi))
	if a.Once && last == vm.RunStrategy {
		return Action{}, ok
	}
	return a, ok
}

// Unasked says that an instance which has just been made for the VM changes nothing of what the VM asks for, so that
// its workflow, which had it made, may hear of it later: nobody has requested it, and the VM would have another one,
// were this one gone again.
func Unasked(vm *contract.VMObservation) bool {
	return Strategy(vm.RunStrategy) == Always && len(vm.StateChangeRequests) == 0 && !Deleted(vm)
}

// Deleted says that a VM is gone, or being deleted.
func Deleted(vm *contract.VMObservation) bool { return vm.Gone || vm.DeletionTimestamp != nil }

// Orphans says that a VM is being deleted without its instance.
func Orphans(vm *contract.VMObservation) bool { return slices.Contains(vm.Finalizers, finalizerOrphan) }

// SituationOf says what an instance does; nil: there is none.
func SituationOf(vmi *contract.VMIObservation) Situation {
	switch {
	case vmi == nil || vmi.Gone:
		return Absent
	case vmi.DeletionTimestamp != nil:
		return Deleting
	case vmi.Phase == "Succeeded":
		return Succeeded
	case vmi.Phase == "Failed":
		return Failed
	default:
		return Alive
	}
}

// RequestOf is what a VM's pending state change requests ask for first, as far as they concern the present instance.
func RequestOf(vm *contract.VMObservation, vmi *contract.VMIObservation) Request {
	reqs := Pending(vm, vmi)
	switch {
	case len(reqs) == 0:
		return NoRequest
	case reqs[0].Action == "Start":
		return StartRequest
	case reqs[0].Action != "Stop":
		return NoRequest
	case len(reqs) > 1 && reqs[1].Action == "Start":
		return RestartRequest
	default:
		return StopRequest
	}
}

// Pending are a VM's state change requests without the first ones that have been met or no longer make sense:
// KubeVirt's trimming. A stop that is left names the present instance.
func Pending(vm *contract.VMObservation, vmi *contract.VMIObservation) []contract.StateChangeRequest {
	situation := SituationOf(vmi)
	reqs := vm.StateChangeRequests
	for len(reqs) > 0 {
		r := reqs[0]
		stopped := r.Action == "Stop" && (situation == Absent || r.UID == "" || r.UID != vmi.UID)
		started := r.Action == "Start" && situation == Alive
		if !stopped && !started {
			break
		}
		reqs = reqs[1:]
	}
	return reqs
}
