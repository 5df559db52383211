package kube

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

// DenyUncontrolled answers, as a function for Intercept, what the API server answers by the policy virtflow-instances: a client, which is taken
// for the control worker, is not to delete a VirtualMachineInstance that nobody controls.
func (s *Server) DenyUncontrolled(r Request) *Fault {
	if r.Verb != "delete" || r.Resource != "virtualmachineinstances" {
		return nil
	}
	vmi := Get[kubevirt.VirtualMachineInstance](s, r.Namespace, r.Name)
	if vmi == nil || metav1.GetControllerOfNoCopy(vmi) != nil {
		return nil
	}
	return &Fault{Status: &metav1.Status{
		Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: `ValidatingAdmissionPolicy 'virtflow-instances' with binding 'virtflow-instances' denied request: nobody controls this VirtualMachineInstance`,
	}}
}
