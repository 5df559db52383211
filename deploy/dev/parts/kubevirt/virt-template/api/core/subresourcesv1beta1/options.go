package subresourcesv1beta1

import kubevirt "kubevirt.io/api/core/v1"

// ProcessOptions has the values of parameters.
type ProcessOptions struct {
	Parameters map[string]string `json:"parameters,omitempty"`
}

// ProcessedVirtualMachineTemplate is a virtual machine made of a template.
type ProcessedVirtualMachineTemplate struct {
	VirtualMachine *kubevirt.VirtualMachine `json:"virtualMachine,omitempty"`
	Message        string                   `json:"message,omitempty"`
}
