package v1beta1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// VirtualMachineTemplateRequest asks for a template of an existing virtual machine.
type VirtualMachineTemplateRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   VirtualMachineTemplateRequestSpec   `json:"spec"`
	Status VirtualMachineTemplateRequestStatus `json:"status,omitempty"`
}

// VirtualMachineTemplateRequestSpec names the virtual machine, and the template that is to be made of it.
type VirtualMachineTemplateRequestSpec struct {
	VirtualMachineRef VirtualMachineReference `json:"virtualMachineRef"`
	TemplateName      string                  `json:"templateName,omitempty"`
}

// VirtualMachineReference names a virtual machine of any namespace.
type VirtualMachineReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// VirtualMachineTemplateRequestStatus names the template, once there is one.
type VirtualMachineTemplateRequestStatus struct {
	TemplateRef *corev1.LocalObjectReference `json:"templateRef,omitempty"`
	Conditions  []metav1.Condition           `json:"conditions,omitempty"`
}

// VirtualMachineTemplateRequestList is a list of requests.
type VirtualMachineTemplateRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []VirtualMachineTemplateRequest `json:"items"`
}

// DeepCopy returns a copy that shares nothing with the request.
func (r *VirtualMachineTemplateRequest) DeepCopy() *VirtualMachineTemplateRequest {
	if r == nil {
		return nil
	}
	out := *r
	out.ObjectMeta = *r.ObjectMeta.DeepCopy()
	out.Status.TemplateRef = r.Status.TemplateRef.DeepCopy()
	out.Status.Conditions = slices.Clone(r.Status.Conditions)
	return &out
}

// DeepCopyObject returns DeepCopy as an object.
func (r *VirtualMachineTemplateRequest) DeepCopyObject() runtime.Object { return r.DeepCopy() }

// DeepCopyObject returns a copy that shares nothing with the list.
func (l *VirtualMachineTemplateRequestList) DeepCopyObject() runtime.Object {
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	out.Items = slices.Clone(l.Items)
	for i := range out.Items {
		out.Items[i] = *l.Items[i].DeepCopy()
	}
	return &out
}
