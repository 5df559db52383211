package admission

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/support"
	"github.com/virtflow/virtflow/api/validation"
	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/internal/migratable"
)

func (h *handler) mutateVM(ctx context.Context, req admission.Request) admission.Response {
	vm, old, end := h.vm.read(req)
	if end != nil {
		return *end
	}
	if vm.DeletionTimestamp != nil {
		if old == nil {
			return admission.Allowed("")
		}
		return h.keepRecord(req, &vm.ObjectMeta, &old.ObjectMeta)
	}
	if causes := validation.Matchers(vm, old); len(causes) > 0 {
		return refusal(causes)
	}
	if err := defaults.Infer(vm); err != nil {
		return badRequest(err)
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return badRequest(err)
	}
	switch {
	case req.Operation == admissionv1.Create:
		defaults.CreateVM(vm, cluster)
		h.recordRequest(req, &vm.ObjectMeta, nil, true)
	case old == nil:
		defaults.UpdateVM(vm, cluster)
	default:
		defaults.UpdateVM(vm, cluster)
		h.recordRequest(req, &vm.ObjectMeta, &old.ObjectMeta, !equality.Semantic.DeepEqual(old.Spec, vm.Spec))
	}
	return patchResponse(part{"spec", vm.Spec}, part{"metadata", vm.ObjectMeta})
}

func (h *handler) validateVM(ctx context.Context, req admission.Request) admission.Response {
	vm, old, end := h.vm.read(req)
	if end != nil {
		return *end
	}
	if vm.DeletionTimestamp != nil {
		return admission.Allowed("")
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return badRequest(err)
	}
	expanded := vm.Spec.Template.Spec.DeepCopy()
	if err := defaults.Spec(expanded, cluster); err != nil {
		return badRequest(err)
	}
	causes := firstOf(
		func() []metav1.StatusCause {
			if old != nil {
				return nil
			}
			return validation.Discontinued(expanded)
		},
		func() []metav1.StatusCause { return validation.VM(vm, expanded, cluster, h.isOwnCall(req)) },
		func() []metav1.StatusCause { return validation.DataVolumeNamespaces(vm, old, req.Namespace) },
		func() []metav1.StatusCause { return busyCauses(vm, old) },
	)
	if len(causes) > 0 {
		return refusal(causes)
	}
	if causes, err = h.volumeRequests(ctx, vm, cluster); err != nil {
		return badRequest(err)
	}
	if len(causes) > 0 {
		return refusal(causes)
	}
	var warnings []string
	if vm.Spec.Running != nil {
		warnings = append(warnings, validation.DeprecatedRunning)
	}
	if causes = validation.Approval(vm.Annotations); len(causes) > 0 {
		return refusal(causes)
	}
	if old != nil && equality.Semantic.DeepEqual(old.Spec, vm.Spec) {
		return answer(nil, warnings...) // what it asks for is there already
	}
	if causes, err = notRunYet(vm, cluster); err != nil {
		return badRequest(err)
	}
	causes = append(causes, support.DataVolumeTemplates(vm, req.Namespace)...)
	warnings = append(warnings, migratable.Warnings(vm.Spec.Template.ObjectMeta.Annotations, expanded)...)
	return answer(causes, warnings...)
}

// busyCauses returns why a VM cannot be changed while a snapshot of it is taken, or one is restored.
func busyCauses(vm, old *kubevirtv1.VirtualMachine) []metav1.StatusCause {
	if old == nil {
		return nil
	}
	return validation.Busy(vm, old)
}

// notRunYet returns causes for parts of a VM, and of the VMI that it would make, that are not supported yet, or, if
// there are none, for those that could never start.
func notRunYet(vm *kubevirtv1.VirtualMachine, cluster defaults.Cluster) ([]metav1.StatusCause, error) {
	expanded := &kubevirtv1.VirtualMachineInstance{}
	vm.Spec.Template.Spec.DeepCopyInto(&expanded.Spec)
	if err := defaults.Instance(expanded, cluster); err != nil {
		return nil, err
	}
	causes, err := support.Check(vm.Spec, support.VMSpec(), "spec")
	if err != nil {
		return nil, err
	}
	more, err := instanceNotRunYet(&vm.Spec.Template.ObjectMeta, &expanded.Spec, cluster, "spec.template.")
	if err != nil {
		return nil, err
	}
	if causes = append(causes, more...); len(causes) > 0 {
		return causes, nil // an instance type, for one, may give what seems to be missing
	}
	return validation.Startable(validation.TemplatePath(), &expanded.Spec, cluster), nil
}

// instanceNotRunYet returns causes for parts of an instance, or of a template for instances, that are not supported
// yet. At is the path of its metadata and spec.
func instanceNotRunYet(
	m *metav1.ObjectMeta, spec *kubevirtv1.VirtualMachineInstanceSpec, cluster defaults.Cluster, at string,
) ([]metav1.StatusCause, error) {
	causes, err := support.Check(spec, support.VMISpec(), at+"spec")
	if err != nil {
		return nil, err
	}
	causes = append(causes, support.Combinations(spec, cluster.Configuration.PermittedHostDevices, at+"spec")...)
	causes = append(causes, support.Bindings(spec, &cluster.Configuration, at+"spec")...)
	return append(causes, support.Metadata(m, at+"metadata")...), nil
}
