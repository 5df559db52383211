package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kubevirt.io/virt-template-api/core"
)

// GroupVersion is the group and version of the kinds.
var GroupVersion = schema.GroupVersion{Group: core.GroupName, Version: "v1beta1"}

// AddToScheme adds the kinds to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &VirtualMachineTemplate{}, &VirtualMachineTemplateList{},
		&VirtualMachineTemplateRequest{}, &VirtualMachineTemplateRequestList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
