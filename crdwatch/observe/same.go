package observe

import (
	"reflect"

	"github.com/virtflow/virtflow/workflows/contract"
)

// SameVM says that two observations of a VM differ in nothing but the resourceVersion. (A workflow that writes with an old one is
// told the current one by the conflict.)
func SameVM(a, b contract.VMObservation) bool {
	a.ResourceVersion, b.ResourceVersion = "", ""
	return reflect.DeepEqual(a, b)
}

// SameVMI is SameVM for VirtualMachineInstances.
func SameVMI(a, b contract.VMIObservation) bool {
	a.ResourceVersion, b.ResourceVersion = "", ""
	return reflect.DeepEqual(a, b)
}

// SameNode is SameVM for nodes.
func SameNode(a, b contract.NodeObservation) bool {
	a.ResourceVersion, b.ResourceVersion = "", ""
	return reflect.DeepEqual(a, b)
}
