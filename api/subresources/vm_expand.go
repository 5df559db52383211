package subresources

import (
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/api/schema"
)

// expandVM answers with a VM whose instance type and preference are expanded.
func (s *Service) expandVM(w http.ResponseWriter, r *Request) error {
	vm, err := s.VM(r.Context(), r.Namespace, r.Name)
	if err != nil {
		return err
	}
	return answerExpanded(w, vm)
}

// expandGiven does the same for a VM in the request, which need not exist.
func (s *Service) expandGiven(w http.ResponseWriter, r *Request) error {
	data, err := read(r, largestObject)
	if err != nil {
		return err
	}
	if err := schema.CheckParts(data); err != nil {
		return unreadableBody(err)
	}
	parts := int64(schema.Parts(data))
	if !s.expanding.TryAcquire(parts) {
		return apierrors.NewTooManyRequests("Too many VirtualMachines are expanded at once.", 1)
	}
	defer s.expanding.Release(parts)
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		return unreadableBody(err)
	}
	if found := s.document.Check(object); len(found) > 0 {
		return notAVM(found...)
	}
	vm := &kubevirtv1.VirtualMachine{}
	if err := json.Unmarshal(data, vm); err != nil {
		return unreadableBody(err)
	}
	if kind := vm.GroupVersionKind(); kind.GroupKind() != kubevirtv1.VirtualMachineGroupVersionKind.GroupKind() {
		return notAVM(fmt.Sprintf("it is a %s of the group %q", kind.Kind, kind.Group))
	}
	if vm.Namespace != "" && vm.Namespace != r.Namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("VM namespace must be empty or %s", r.Namespace))
	}
	vm.Namespace = r.Namespace
	return answerExpanded(w, vm)
}

// notAVM returns KubeVirt's answer for an object that its validator refuses.
func notAVM(found ...string) error {
	err := apierrors.NewBadRequest("Object is not a valid VirtualMachine")
	err.ErrStatus.Details = &metav1.StatusDetails{}
	for _, text := range found {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: text})
	}
	return err
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
