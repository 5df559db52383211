package clients

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// Parts of states. Two stand beside any other of VMs: the spec is newer than what the instance follows, and the run
// strategy is Halted.
const (
	olderGeneration = "older generation"
	halted          = " (Halted)"
	noInstance      = "no instance"
	noStatus        = "no status"
	beingDeleted    = "being deleted"
)

// stateOf returns the state of an object in words: the status that kubectl shows, and what else clients look at.
func stateOf(o runtime.Object) string {
	switch o := o.(type) {
	case *kubevirt.VirtualMachine:
		return stateOfVM(o)
	case *kubevirt.VirtualMachineInstance:
		s := string(o.Status.Phase)
		if o.Status.Phase == kubevirt.Running && !isTrue(o.Status.Conditions, kubevirt.VirtualMachineInstanceReady) {
			s += ", not ready"
		}
		if isTrue(o.Status.Conditions, kubevirt.VirtualMachineInstancePaused) {
			s += ", paused"
		}
		return named(s, o.DeletionTimestamp != nil)
	case *kubevirt.VirtualMachineInstanceMigration:
		return named(string(o.Status.Phase), o.DeletionTimestamp != nil)
	case *kubevirt.VirtualMachineInstanceReplicaSet:
		s := "scaled"
		if o.Spec.Replicas != nil && o.Status.ReadyReplicas != *o.Spec.Replicas {
			s = "scaling"
		}
		for _, c := range o.Status.Conditions {
			s += ", " + string(c.Type)
		}
		return named(s, o.DeletionTimestamp != nil)
	case *cdi.DataVolume:
		return named(string(o.Status.Phase), o.DeletionTimestamp != nil)
	default:
		panic(fmt.Sprintf("no states of %T", o))
	}
}

func stateOfVM(vm *kubevirt.VirtualMachine) string {
	s := vm.Status
	out := string(s.PrintableStatus)
	ready := slices.ContainsFunc(s.Conditions, func(c kubevirt.VirtualMachineCondition) bool {
		return c.Type == kubevirt.VirtualMachineReady && c.Status == corev1.ConditionTrue
	})
	if out == "" {
		out = noStatus
	} else {
		var more []string
		add := func(is bool, what string) {
			if is {
				more = append(more, what)
			}
		}
		up := out == string(kubevirt.VirtualMachineStatusRunning) ||
			out == string(kubevirt.VirtualMachineStatusMigrating)
		add(up && !ready, "not ready")
		add(!up && ready, "ready")
		add(!s.Created, noInstance)
		add(s.ObservedGeneration != vm.Generation, olderGeneration)
		out = strings.Join(append([]string{out}, more...), ", ")
	}
	if r := vm.Spec.RunStrategy; r != nil && *r == kubevirt.RunStrategyHalted {
		out += halted
	}
	return named(out, vm.DeletionTimestamp != nil)
}

// named returns the name of a state, which may be empty, of an object that may be being deleted.
func named(state string, deleting bool) string {
	switch {
	case deleting:
		return beingDeleted
	case state == "":
		return noStatus
	default:
		return state
	}
}

func isTrue(
	list []kubevirt.VirtualMachineInstanceCondition, kind kubevirt.VirtualMachineInstanceConditionType,
) bool {
	return slices.ContainsFunc(list, func(c kubevirt.VirtualMachineInstanceCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}
