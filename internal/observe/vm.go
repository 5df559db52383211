package observe

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// VM observes a VirtualMachine.
func VM(vm *kubevirt.VirtualMachine) contract.VMObservation {
	strategy, legacy := RunStrategy(vm)
	o := contract.VMObservation{
		UID:               string(vm.UID),
		ResourceVersion:   vm.ResourceVersion,
		Generation:        vm.Generation,
		DeletionTimestamp: moment(vm.DeletionTimestamp),
		Finalizers:        cloneOrNil(vm.Finalizers),
		RunStrategy:       strategy,
		LegacyRunning:     legacy,
		StatusRunStrategy: word(string(vm.Status.RunStrategy)),
		Reported:          vm.Status.PrintableStatus != "",
		Actor:             word(vm.Annotations[contract.AnnotationRequestedBy]),
		NeedsApproval:     operations(vm.Annotations[contract.AnnotationApproval]),
		DeferDataVolumes:  vm.Annotations[contract.AnnotationDeferDataVolumes] == "false",
	}
	for _, c := range OwnConditions(vm.Status.Conditions) {
		if c.Status == corev1.ConditionTrue {
			held := condition(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
			o.Held = &held
		}
	}
	for i, r := range vm.Status.StateChangeRequests {
		if i == maxRequests {
			o.MoreRequests = len(vm.Status.StateChangeRequests) - maxRequests
			break
		}
		request := contract.StateChangeRequest{Action: word(string(r.Action)), Data: pairs(r.Data, maxData)}
		if r.UID != nil {
			request.UID = word(string(*r.UID))
		}
		o.StateChangeRequests = append(o.StateChangeRequests, request)
	}
	if f := vm.Status.StartFailure; f != nil {
		o.StartFailure = &contract.StartFailure{
			ConsecutiveFailCount: f.ConsecutiveFailCount,
			LastFailedVMIUID:     word(string(f.LastFailedVMIUID)),
			RetryAfter:           moment(f.RetryAfterTimestamp),
		}
	}
	return o
}

// OwnConditions returns the conditions of a VirtualMachine that its entity reads back: requests of people must survive
// the loss of Temporal's history.
func OwnConditions(list []kubevirt.VirtualMachineCondition) []kubevirt.VirtualMachineCondition {
	for _, c := range list {
		if string(c.Type) == contract.ConditionHeld {
			return []kubevirt.VirtualMachineCondition{c}
		}
	}
	return nil
}

// operations parses a comma-separated list of the two operations that can require an approval. Admission refuses
// anything else.
func operations(list string) []string {
	var out []string
	for _, op := range []contract.Operation{contract.OperationStart, contract.OperationStop} {
		for _, x := range strings.Split(list, ",") {
			if strings.TrimSpace(x) == string(op) {
				out = append(out, string(op))
				break
			}
		}
	}
	return out
}

// GoneVM observes that a VirtualMachine of that UID no longer exists.
func GoneVM(uid string) contract.VMObservation { return contract.VMObservation{UID: uid, Gone: true} }

// RunStrategy returns the effective run strategy of a VM, and whether the VM sets it by the old spec.running. As in
// KubeVirt, running true is Always; false, or neither field, is Halted. Both fields at once, which admission refuses,
// are RunStrategyContradictory.
func RunStrategy(vm *kubevirt.VirtualMachine) (strategy string, legacy bool) {
	switch {
	case vm.Spec.RunStrategy != nil && vm.Spec.Running != nil:
		return contract.RunStrategyContradictory, false
	case vm.Spec.RunStrategy != nil:
		return word(string(*vm.Spec.RunStrategy)), false
	case vm.Spec.Running == nil:
		return string(kubevirt.RunStrategyHalted), false
	case *vm.Spec.Running:
		return string(kubevirt.RunStrategyAlways), true
	default:
		return string(kubevirt.RunStrategyHalted), true
	}
}

// pairs copies at most n pairs, the first by name.
func pairs(m map[string]string, n int) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, min(len(m), n))
	for _, k := range sortedKeys(m) {
		if len(out) == n {
			break
		}
		out[word(k)] = word(m[k])
	}
	return out
}
