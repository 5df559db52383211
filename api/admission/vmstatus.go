package admission

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/contract"
)

// mutateVMStatus records the user in state change requests that are written into a VM's status without the subresources
// API. It overwrites what such a request has there; earlier requests stay as they were.
func (h *handler) mutateVMStatus(_ context.Context, req admission.Request) admission.Response {
	if h.isOwnCall(req) || !h.vm.isAbout(req.Resource) {
		return admission.Allowed("")
	}
	vm, old := &kubevirtv1.VirtualMachine{}, &kubevirtv1.VirtualMachine{}
	if err := json.Unmarshal(req.Object.Raw, vm); err != nil {
		return badRequest(err)
	}
	if len(req.OldObject.Raw) > 0 {
		if err := json.Unmarshal(req.OldObject.Raw, old); err != nil {
			return badRequest(err)
		}
	}
	before, changed := slices.Clone(old.Status.StateChangeRequests), false
	for i := range vm.Status.StateChangeRequests {
		r := &vm.Status.StateChangeRequests[i]
		if at := slices.IndexFunc(before, func(b kubevirtv1.VirtualMachineStateChangeRequest) bool {
			return sameRequest(*r, b)
		}); at >= 0 {
			before = slices.Delete(before, at, at+1) // a copy of it is a request of its own
			continue
		}
		if r.Data[contract.AnnotationRequestedBy] == req.UserInfo.Username {
			continue
		}
		r.Data = maps.Clone(r.Data)
		if r.Data == nil {
			r.Data = map[string]string{}
		}
		r.Data[contract.AnnotationRequestedBy] = req.UserInfo.Username
		changed = true
	}
	if !changed {
		return admission.Allowed("")
	}
	return patchResponse(part{"status/stateChangeRequests", vm.Status.StateChangeRequests})
}

func sameRequest(a, b kubevirtv1.VirtualMachineStateChangeRequest) bool {
	same := (a.UID == nil) == (b.UID == nil) && (a.UID == nil || *a.UID == *b.UID)
	return same && a.Action == b.Action && maps.Equal(a.Data, b.Data)
}
