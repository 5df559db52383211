package template

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirt "kubevirt.io/api/core/v1"

	"kubevirt.io/virt-template-api/core/v1beta1"
)

// ErrLeftOut is the error of every function.
var ErrLeftOut = errors.New("this virtctl is built without the engine of virtual machine templates")

// Processor makes virtual machines of templates.
type Processor struct{}

// MergeParameters fails with ErrLeftOut.
func MergeParameters([]v1beta1.Parameter, map[string]string) ([]v1beta1.Parameter, error) {
	return nil, ErrLeftOut
}

// ValidateParameterReferences fails with ErrLeftOut.
func ValidateParameterReferences(*v1beta1.VirtualMachineTemplate) ([]string, field.ErrorList) {
	return nil, field.ErrorList{field.InternalError(nil, ErrLeftOut)}
}

// GetDefaultProcessor returns a processor.
func GetDefaultProcessor() *Processor { return &Processor{} }

// Process fails with ErrLeftOut.
func (*Processor) Process(*v1beta1.VirtualMachineTemplate) (*kubevirt.VirtualMachine, string, *field.Error) {
	return nil, "", field.InternalError(nil, ErrLeftOut)
}
