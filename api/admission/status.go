package admission

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/validation"
)

// validateStatus answers for the status of VMs, replica sets and migrations, written by other users than virtflow.
func (h *handler) validateStatus(ctx context.Context, req admission.Request) admission.Response {
	document, err := parse(req.Object.Raw)
	if err != nil {
		return badRequest(err)
	}
	name, _ := document["kind"].(string)
	if name == "" {
		return refusal(texts([]string{"could not determine object kind"}))
	}
	var found []string
	switch name {
	case h.vm.name:
		found = h.vm.document.CheckStatus(document)
	case h.vmi.name:
		found = h.vmi.document.CheckStatus(document)
	case h.vmirs.name:
		found = h.vmirs.document.CheckStatus(document)
	case h.vmim.name:
		found = h.vmim.document.CheckStatus(document)
	}
	if len(found) > 0 {
		return refusal(texts(found))
	}
	if !h.vm.isAbout(req.Resource) {
		return admission.Allowed("")
	}
	return h.validateVMStatus(ctx, req)
}

func (h *handler) validateVMStatus(ctx context.Context, req admission.Request) admission.Response {
	vm := &kubevirtv1.VirtualMachine{}
	if err := json.Unmarshal(req.Object.Raw, vm); err != nil {
		return badRequest(err)
	}
	var old *kubevirtv1.VirtualMachine
	if len(req.OldObject.Raw) > 0 {
		old = &kubevirtv1.VirtualMachine{}
		if err := json.Unmarshal(req.OldObject.Raw, old); err != nil {
			return badRequest(err)
		}
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return badRequest(err)
	}
	causes, err := h.volumeRequests(ctx, vm, cluster)
	if err != nil {
		return badRequest(err)
	}
	return answer(firstOf(
		func() []metav1.StatusCause { return causes },
		func() []metav1.StatusCause {
			if old == nil {
				return nil
			}
			return validation.Busy(vm, old)
		},
	))
}
