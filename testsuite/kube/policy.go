package kube

import (
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

// PolicyOfInstances answers, as a function for Intercept, what the API server answers by the policy virtflow-instances. Every client is taken for
// the control worker: it is not to delete a VirtualMachineInstance that nobody controls, nor by UID alone one that no VirtualMachine of its name
// controls.
func (s *Server) PolicyOfInstances(r Request) *Fault {
	if r.Verb != "delete" || r.Resource != "virtualmachineinstances" {
		return nil
	}
	vmi := Get[kubevirt.VirtualMachineInstance](s, r.Namespace, r.Name)
	if vmi == nil {
		return nil
	}
	var options metav1.DeleteOptions
	looked := json.Unmarshal(r.Body, &options) == nil && options.Preconditions != nil && options.Preconditions.ResourceVersion != nil
	if ref := metav1.GetControllerOfNoCopy(vmi); ref != nil && (looked || ref.Kind == "VirtualMachine" && ref.Name == vmi.Name) {
		return nil
	}
	return &Fault{Status: &metav1.Status{
		Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: `ValidatingAdmissionPolicy 'virtflow-instances' with binding 'virtflow-instances' denied request: no VirtualMachine of its name controls this VirtualMachineInstance`,
	}}
}
