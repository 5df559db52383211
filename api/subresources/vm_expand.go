package subresources

import (
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// expandVM answers with a VM in which instance type and preference are filled in.
func (s *Service) expandVM(w http.ResponseWriter, r *Request) error {
	vm, err := s.VM(r.Context(), r.Namespace, r.Name)
	if err != nil {
		return err
	}
	return answerExpanded(w, vm)
}

// expandGiven does the same to a VM that is sent, and is not made.
func (s *Service) expandGiven(w http.ResponseWriter, r *Request) error {
	data, err := read(r)
	if err != nil {
		return err
	}
	vm := &kubevirtv1.VirtualMachine{}
	if err := json.Unmarshal(data, vm); err != nil {
		return unreadable(err)
	}
	if kind := vm.GroupVersionKind(); kind.GroupKind() != (schema.GroupKind{Group: kubevirtv1.GroupVersion.Group, Kind: "VirtualMachine"}) {
		return apierrors.NewBadRequest("Object is not a valid VirtualMachine")
	}
	if vm.Namespace != "" && vm.Namespace != r.Namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("VM namespace must be empty or %s", r.Namespace))
	}
	vm.Namespace = r.Namespace
	return answerExpanded(w, vm)
}

func answerExpanded(w http.ResponseWriter, vm *kubevirtv1.VirtualMachine) error {
	if vm.Spec.Instancetype != nil || vm.Spec.Preference != nil {
		return NotYet("Instance types and preferences are not supported yet.")
	}
	vm.SetGroupVersionKind(kubevirtv1.VirtualMachineGroupVersionKind)
	vm.ManagedFields = nil
	JSON(w, http.StatusOK, vm)
	return nil
}
