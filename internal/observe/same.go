package observe

import (
	"reflect"
	"slices"

	"github.com/virtflow/virtflow/contract"
)

// SameVM reports whether two observations of a VM are equal in everything that a decision needs. The resourceVersion
// does not count: a workflow that writes with an old one is sent the current one. Neither do the parts of the status
// that only the VM's own entity writes, since it knows them.
func SameVM(a, b contract.VMObservation) bool {
	for _, o := range []*contract.VMObservation{&a, &b} {
		o.ResourceVersion, o.StatusRunStrategy, o.StartFailure, o.Reported, o.Held = "", "", nil, false, nil
		o.DataVolumesVersion = ""
	}
	return reflect.DeepEqual(a, b)
}

// SameVMI reports whether two observations of a VMI are equal for its own entity, as SameVM does for a VM.
func SameVMI(a, b contract.VMIObservation) bool {
	for _, o := range []*contract.VMIObservation{&a, &b} {
		o.ResourceVersion, o.Phase, o.NodeName, o.Conditions, o.EverRan, o.PhaseTimes, o.ActivePods, o.Migration = "",
			"", "", nil, false, nil, nil, nil
		o.ClaimsVersion, o.Evicted = "", false
	}
	return reflect.DeepEqual(a, b)
}

// SameCopy reports whether two observations of a VMI are equal for the VM that owns it. While a VMI starts without a
// problem, the VM shows only that it is starting: the step, and the reason why it is not ready yet, are in the VMI's
// status.
func SameCopy(a, b contract.VMIObservation) bool {
	for _, o := range []*contract.VMIObservation{&a, &b} {
		o.ResourceVersion, o.ClaimsVersion = "", ""
		switch o.Phase {
		case "", "Pending", "Scheduling", "Scheduled":
			o.Phase, o.NodeName = "", ""
			o.Conditions = slices.Clone(o.Conditions)
			for i, c := range o.Conditions {
				if c.Type == "Ready" {
					o.Conditions[i] = contract.Condition{Type: c.Type, Status: c.Status}
				}
			}
		}
	}
	return reflect.DeepEqual(a, b)
}

// SameNode reports whether two observations of a node are equal for its entity, as SameVM does for a VM.
func SameNode(a, b contract.NodeObservation) bool {
	for _, o := range []*contract.NodeObservation{&a, &b} {
		o.ResourceVersion, o.WorkerVersion, o.SettingsVersion = "", "", ""
	}
	return reflect.DeepEqual(a, b)
}
