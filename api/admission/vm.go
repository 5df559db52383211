package admission

import (
	"context"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/defaults"
	"github.com/virtflow/virtflow/api/support"
	"github.com/virtflow/virtflow/api/validation"
)

func (h *handler) mutateVM(ctx context.Context, req admission.Request) admission.Response {
	vm, err := decode[kubevirtv1.VirtualMachine](req.Object.Raw, "VirtualMachine")
	if err != nil {
		return bad(err)
	}
	if vm.DeletionTimestamp != nil {
		return admission.Allowed("")
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return bad(err)
	}
	if req.Operation == admissionv1.Create {
		defaults.CreateVM(vm, cluster)
		h.recordRequest(req, &vm.ObjectMeta, nil, true)
		return patched(req, vm)
	}
	defaults.UpdateVM(vm, cluster)
	old, err := decode[kubevirtv1.VirtualMachine](req.OldObject.Raw, "the VirtualMachine as it was")
	if err != nil {
		return bad(err)
	}
	h.recordRequest(req, &vm.ObjectMeta, &old.ObjectMeta, !reflect.DeepEqual(old.Spec, vm.Spec))
	return patched(req, vm)
}

func (h *handler) validateVM(ctx context.Context, req admission.Request) admission.Response {
	vm, err := decode[kubevirtv1.VirtualMachine](req.Object.Raw, "VirtualMachine")
	if err != nil {
		return bad(err)
	}
	if vm.DeletionTimestamp != nil {
		return admission.Allowed("")
	}
	if causes := validation.Approval(vm.Annotations); len(causes) > 0 {
		return answer(causes)
	}
	if req.Operation == admissionv1.Update {
		old, err := decode[kubevirtv1.VirtualMachine](req.OldObject.Raw, "the VirtualMachine as it was")
		if err != nil {
			return bad(err)
		}
		if reflect.DeepEqual(old.Spec, vm.Spec) {
			return admission.Allowed("") // labels, annotations and finalizers are the user's own
		}
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return bad(err)
	}
	var warnings []string
	if vm.Spec.Running != nil {
		warnings = append(warnings, validation.DeprecatedRunning)
	}
	causes, err := vmCauses(vm, cluster)
	if err != nil {
		return bad(err)
	}
	return answer(causes, warnings...)
}

// vmCauses checks a VM and the VMI that it would make: first what KubeVirt would refuse, then what is not supported yet.
func vmCauses(vm *kubevirtv1.VirtualMachine, cluster defaults.Cluster) ([]metav1.StatusCause, error) {
	expanded := &kubevirtv1.VirtualMachineInstance{}
	if vm.Spec.Template != nil {
		vm.Spec.Template.Spec.DeepCopyInto(&expanded.Spec)
		if err := expandSpec(expanded, cluster); err != nil {
			return nil, err
		}
	}
	if causes := validation.VM(vm, &expanded.Spec, cluster); len(causes) > 0 {
		return causes, nil
	}
	causes, err := support.Check(vm.Spec, support.VMSpec(), "spec")
	if err != nil {
		return nil, err
	}
	more, err := support.Check(expanded.Spec, support.VMISpec(), "spec.template.spec")
	if err != nil {
		return nil, err
	}
	causes = append(causes, more...)
	causes = append(causes, support.Combinations(&expanded.Spec, "spec.template.spec")...)
	return append(causes, validation.Startable(&expanded.Spec)...), nil
}
