package defaults

import (
	"fmt"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Infer follows a VM's wish to take its instance type or its preference from one of its volumes, as far as the VM itself tells. What only
// the volume's claim could tell stays as it is: instance types and preferences are refused later.
func Infer(vm *kubevirtv1.VirtualMachine) error {
	if i := vm.Spec.Instancetype; i != nil {
		forget, err := infer(vm, i.InferFromVolume, i.InferFromVolumeFailurePolicy)
		if err != nil {
			return err
		}
		if forget {
			vm.Spec.Instancetype = nil
		}
	}
	if p := vm.Spec.Preference; p != nil {
		forget, err := infer(vm, p.InferFromVolume, p.InferFromVolumeFailurePolicy)
		if err != nil {
			return err
		}
		if forget {
			vm.Spec.Preference = nil
		}
	}
	return nil
}

func infer(vm *kubevirtv1.VirtualMachine, from string, policy *kubevirtv1.InferFromVolumeFailurePolicy) (forget bool, err error) {
	if from == "" || vm.Spec.Template == nil {
		return false, nil
	}
	for _, v := range vm.Spec.Template.Spec.Volumes {
		switch {
		case v.Name != from:
			continue
		case v.PersistentVolumeClaim != nil || v.DataVolume != nil:
			return false, nil
		case policy != nil && *policy == kubevirtv1.IgnoreInferFromVolumeFailure:
			return true, nil
		default:
			return false, fmt.Errorf("unable to infer defaults from volume %s as type is not supported", from)
		}
	}
	return false, fmt.Errorf("unable to find volume %s to infer defaults", from)
}
