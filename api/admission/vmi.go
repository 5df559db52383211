package admission

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/defaults"
	"github.com/virtflow/virtflow/api/support"
	"github.com/virtflow/virtflow/api/validation"
)

func (h *handler) mutateVMI(ctx context.Context, req admission.Request) admission.Response {
	vmi, err := decode[kubevirtv1.VirtualMachineInstance](req.Object.Raw, "VirtualMachineInstance")
	if err != nil {
		return bad(err)
	}
	if req.Operation == admissionv1.Create {
		if !h.own(req) {
			vmi.Status = kubevirtv1.VirtualMachineInstanceStatus{}
		}
		cluster, err := h.Cluster(ctx)
		if err != nil {
			return bad(err)
		}
		if err := expand(vmi, func(v *kubevirtv1.VirtualMachineInstance) error { return defaults.CreateVMI(v, cluster, h.Now()) }); err != nil {
			return bad(err)
		}
		h.recordRequest(req, &vmi.ObjectMeta, nil, true)
		return patched(req, vmi)
	}
	old, err := decode[kubevirtv1.VirtualMachineInstance](req.OldObject.Raw, "the VirtualMachineInstance as it was")
	if err != nil {
		return bad(err)
	}
	// Status is part of the main resource here, so it is this webhook that keeps users from writing it.
	if !h.own(req) {
		vmi.Status = old.Status
	}
	h.recordRequest(req, &vmi.ObjectMeta, &old.ObjectMeta, false)
	return patched(req, vmi)
}

func (h *handler) validateVMI(ctx context.Context, req admission.Request) admission.Response {
	vmi, err := decode[kubevirtv1.VirtualMachineInstance](req.Object.Raw, "VirtualMachineInstance")
	if err != nil {
		return bad(err)
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return bad(err)
	}
	if causes := validation.VMI(vmi, cluster, h.own(req)); len(causes) > 0 {
		return refused(causes)
	}
	causes, err := support.Check(vmi.Spec, support.VMISpec(), "spec")
	if err != nil {
		return bad(err)
	}
	return answer(append(causes, support.Combinations(&vmi.Spec, "spec")...))
}

func (h *handler) validateVMIUpdate(_ context.Context, req admission.Request) admission.Response {
	vmi, err := decode[kubevirtv1.VirtualMachineInstance](req.Object.Raw, "VirtualMachineInstance")
	if err != nil {
		return bad(err)
	}
	old, err := decode[kubevirtv1.VirtualMachineInstance](req.OldObject.Raw, "the VirtualMachineInstance as it was")
	if err != nil {
		return bad(err)
	}
	return answer(validation.VMIUpdate(old, vmi, h.own(req)))
}
