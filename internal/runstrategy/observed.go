package runstrategy

import (
	"slices"

	"github.com/virtflow/virtflow/contract"
)

// finalizerOrphan is on an object that is being deleted with its dependents orphaned
// (metav1.FinalizerOrphanDependents).
const finalizerOrphan = "orphan"

// evictedWhy is the reason for which a VM gets another instance after its pod was deleted.
const evictedWhy = "its pod was deleted while its guest ran"

// Desired returns what a VM asks for. vmi is its instance (nil: there is none), and last the run strategy that the VM's
// status had last ("": none), by which a strategy is new or not. ok is false for a strategy that is not served.
func Desired(vm *contract.VMObservation, vmi *contract.VMIObservation, last string) (a Action, ok bool) {
	situation := SituationOf(vmi)
	if Deleted(vm) {
		if Orphans(vm) || situation == Absent || situation == Deleting {
			return Action{}, true
		}
		return Action{Operation: contract.OperationStop, Why: "the VirtualMachine is being deleted"}, true
	}
	evicted := vmi != nil && vmi.Evicted && (situation == Succeeded || situation == Failed)
	if evicted {
		situation = Failed // it has not ended by itself, even if it has shut down cleanly
	}
	a, ok = Lookup(Strategy(vm.RunStrategy), situation, RequestOf(vm, vmi))
	if evicted && a != (Action{}) && Strategy(vm.RunStrategy) != Halted && RequestOf(vm, vmi) == NoRequest {
		a.Why = evictedWhy
	}
	if a.Once && last == vm.RunStrategy {
		return Action{}, ok
	}
	return a, ok
}

// Unasked reports whether an instance that has just been made changes nothing of what the VM asks for, so that its
// workflow, which had it made, may be notified later: there is no request, and the VM would get another instance if
// this one were gone again.
func Unasked(vm *contract.VMObservation) bool {
	return Strategy(vm.RunStrategy) == Always && len(vm.StateChangeRequests) == 0 && !Deleted(vm)
}

// Deleted reports whether a VM is gone, or being deleted.
func Deleted(vm *contract.VMObservation) bool { return vm.Gone || vm.DeletionTimestamp != nil }

// Orphans reports whether a VM is being deleted without its instance.
func Orphans(vm *contract.VMObservation) bool { return slices.Contains(vm.Finalizers, finalizerOrphan) }

// SituationOf returns the situation of an instance; nil means that there is none.
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

// RequestOf returns what a VM's first pending state change requests ask for, if they concern the current instance.
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

// Pending returns a VM's state change requests without the first ones that are done or no longer apply, as KubeVirt
// trims them. A remaining stop names the current instance.
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
