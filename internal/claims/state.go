package claims

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	// StatePrefix begins the names of claims with what machines remember, and is the label with the machine's name.
	StatePrefix = "persistent-state-for"
	// StateVolume is the name that the status of an instance has for its own.
	StateVolume = StatePrefix + "-this-vm"
	// StateDirectory is where a launcher finds it.
	StateDirectory = "/run/virtflow/state"
)

// PersistentTPM says that a machine has a TPM that remembers, and PersistentEFI that its firmware does.
func PersistentTPM(spec *kubevirt.DomainSpec) bool {
	tpm := spec.Devices.TPM
	return tpm != nil && on(tpm.Enabled, true) && on(tpm.Persistent, false)
}

// PersistentEFI: see PersistentTPM.
func PersistentEFI(spec *kubevirt.DomainSpec) bool {
	f := spec.Firmware
	return f != nil && f.Bootloader != nil && f.Bootloader.EFI != nil && on(f.Bootloader.EFI.Persistent, false)
}

// State is the name of the claim with what an instance's machine remembers; false: it needs none. It is one for all
// instances of a VM, and no VM of a later time finds it. An instance that has one keeps it, also when its VM leaves it
// behind.
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

// StateOwner is whom that claim goes with: the VM, or the instance if it is nobody's, or one of many.
func StateOwner(vmi *kubevirt.VirtualMachineInstance) metav1.OwnerReference {
	if owner := metav1.GetControllerOf(vmi); owner != nil &&
		owner.Kind == kubevirt.VirtualMachineGroupVersionKind.Kind {
		return *owner
	}
	return *metav1.NewControllerRef(vmi, kubevirt.VirtualMachineInstanceGroupVersionKind)
}

func on(value *bool, otherwise bool) bool {
	if value == nil {
		return otherwise
	}
	return *value
}
