package defaults

import (
	"slices"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// AnnotationPCITopology names the layout of PCI ports a VMI was made for.
const AnnotationPCITopology = "kubevirt.io/pci-topology-version"

const pciTopologyVersion = "v3"

// CreateVM fills in a VirtualMachine that is being created. The firmware's identities are made here so that they
// outlive each VMI; the finalizer is added here because it would otherwise cost a write of its own.
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

// hasPCIe says whether a machine has ports that devices can be plugged into.
func hasPCIe(spec *kubevirtv1.VirtualMachineInstanceSpec) bool {
	if spec.Architecture != amd64 && spec.Architecture != arm64 && spec.Architecture != "" {
		return false
	}
	m := spec.Domain.Machine
	return m == nil || strings.Contains(m.Type, "q35") || strings.HasPrefix(m.Type, "virt")
}

// UpdateVM fills in a VirtualMachine that is being changed.
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
