package defaults

import (
	"slices"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// AnnotationPCITopology names the layout of PCI ports for which a VMI was made.
const AnnotationPCITopology = "kubevirt.io/pci-topology-version"

const pciTopologyVersion = "v3"

// CreateVM fills in a VirtualMachine that is being created. It makes the firmware's identities so that they outlive
// each VMI, and adds the finalizer because that would otherwise need a write of its own.
func CreateVM(vm *kubevirtv1.VirtualMachine, cluster Cluster) {
	if !slices.Contains(vm.Finalizers, contract.FinalizerVM) {
		vm.Finalizers = append(vm.Finalizers, contract.FinalizerVM)
	}
	t := vm.Spec.Template
	if t == nil {
		return
	}
	if t.Spec.Domain.Firmware == nil {
		t.Spec.Domain.Firmware = &kubevirtv1.Firmware{}
	}
	if t.Spec.Domain.Firmware.UUID == "" {
		t.Spec.Domain.Firmware.UUID = types.UID(uuid.NewString())
	}
	if t.Spec.Domain.Firmware.Serial == "" {
		t.Spec.Domain.Firmware.Serial = uuid.NewString()
	}
	UpdateVM(vm, cluster)
	if hasPCIe(&t.Spec) {
		annotate(&t.ObjectMeta, AnnotationPCITopology, pciTopologyVersion)
	}
}

// hasPCIe reports whether a machine has ports for hot-plugged devices.
func hasPCIe(spec *kubevirtv1.VirtualMachineInstanceSpec) bool {
	if spec.Architecture != amd64 && spec.Architecture != arm64 && spec.Architecture != "" {
		return false
	}
	m := spec.Domain.Machine
	return m == nil || strings.Contains(m.Type, "q35") || strings.HasPrefix(m.Type, "virt")
}

// UpdateVM fills in a VirtualMachine that is being updated.
func UpdateVM(vm *kubevirtv1.VirtualMachine, cluster Cluster) {
	if vm.Spec.Template != nil {
		platform(&vm.Spec.Template.Spec, cluster)
	}
}

// platform fills in architecture and machine type.
func platform(spec *kubevirtv1.VirtualMachineInstanceSpec, cluster Cluster) {
	if spec.Architecture == "" {
		spec.Architecture = cluster.Architecture
	}
	if spec.Domain.Machine == nil {
		spec.Domain.Machine = &kubevirtv1.Machine{}
	}
	if spec.Domain.Machine.Type == "" {
		spec.Domain.Machine.Type = cluster.MachineType(spec.Architecture)
	}
}
