package observe

import (
	"reflect"
	"slices"

	"github.com/virtflow/virtflow/workflows/contract"
)

// SameVM says that two observations of a VM differ in nothing that a decision needs. The resourceVersion does not
// count: a workflow that writes with an old one is sent the present one. Neither does what the VM's own entity alone
// writes into the status: it knows.
func SameVM(a, b contract.VMObservation) bool {
	for _, o := range []*contract.VMObservation{&a, &b} {
		o.ResourceVersion, o.StatusRunStrategy, o.StartFailure, o.ObservedGeneration, o.Reported, o.Held = "", "", nil,
			0, false, nil
		o.DataVolumesVersion = ""
	}
	return reflect.DeepEqual(a, b)
}

// SameVMI is SameVM for a VMI and its own entity.
func SameVMI(a, b contract.VMIObservation) bool {
	for _, o := range []*contract.VMIObservation{&a, &b} {
		o.ResourceVersion, o.Phase, o.NodeName, o.Conditions, o.EverRan, o.PhaseTimes, o.ActivePods, o.Migration = "",
			"", "", nil, false, nil, nil, nil
		o.ClaimsVersion = ""
	}
	return reflect.DeepEqual(a, b)
}

// SameCopy says that two observations of a VMI say the same to the VM that owns it. Of a VMI that is on its way up,
// with nothing wrong, the VM shows that it is starting: at which step, and in which words it is not ready yet, is the
// VMI's to show.
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

// SameNode is SameVM for nodes.
func SameNode(a, b contract.NodeObservation) bool {
	for _, o := range []*contract.NodeObservation{&a, &b} {
		o.ResourceVersion, o.WorkerVersion = "", ""
	}
	return reflect.DeepEqual(a, b)
}
