package claims

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

const (
	// StatePrefix begins the names of PVCs with the persistent state of machines, and is the label with the machine's
	// name.
	StatePrefix = "persistent-state-for"
	// StateVolume is the name by which the status of an instance refers to its own.
	StateVolume = StatePrefix + "-this-vm"
	// StateDirectory is where a launcher finds it.
	StateDirectory = "/run/virtflow/state"
)

// PersistentTPM reports whether a machine has a TPM with persistent state.
func PersistentTPM(spec *kubevirt.DomainSpec) bool {
	tpm := spec.Devices.TPM
	return tpm != nil && isOn(tpm.Enabled, true) && isOn(tpm.Persistent, false)
}

// PersistentEFI reports whether a machine's firmware has persistent variables.
func PersistentEFI(spec *kubevirt.DomainSpec) bool {
	f := spec.Firmware
	return f != nil && f.Bootloader != nil && f.Bootloader.EFI != nil && isOn(f.Bootloader.EFI.Persistent, false)
}

// State returns the name of the PVC with the persistent state of an instance's machine; false if it needs none. All
// instances of a VM have the same, and no later VM of that name finds it. An instance keeps its own, even when its VM
// orphans it.
func State(vmi *kubevirt.VirtualMachineInstance) (name string, _ bool) {
	if !PersistentTPM(&vmi.Spec.Domain) && !PersistentEFI(&vmi.Spec.Domain) {
		return "", false
	}
	if known := Known(vmi, StateVolume); known != nil && known.ClaimName != "" {
		return known.ClaimName, true
	}
	suffix := "-" + contract.ShortUID(string(StateOwner(vmi).UID))
	name = StatePrefix + "-" + vmi.Name
	if most := validation.DNS1123SubdomainMaxLength - len(suffix); len(name) > most {
		name = strings.TrimRight(name[:most], "-.")
	}
	return name + suffix, true
}

// StateOwner returns the owner of that PVC: the VM, or the instance if it has no controller, or is one of many.
func StateOwner(vmi *kubevirt.VirtualMachineInstance) metav1.OwnerReference {
	if owner := metav1.GetControllerOf(vmi); owner != nil &&
		owner.Kind == kubevirt.VirtualMachineGroupVersionKind.Kind {
		return *owner
	}
	return *metav1.NewControllerRef(vmi, kubevirt.VirtualMachineInstanceGroupVersionKind)
}

// isOn reports whether a switch is on. One that is nil has the value otherwise.
func isOn(value *bool, otherwise bool) bool {
	if value == nil {
		return otherwise
	}
	return *value
}
