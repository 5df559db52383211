package defaults

import (
	"errors"
	"fmt"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Infer copies a VM's instance type or its preference from one of its volumes if the VM asks for that, as far as the VM
// itself has the data. What only the volume's PVC has stays unresolved: validation refuses instance types and
// preferences.
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

func infer(
	vm *kubevirtv1.VirtualMachine, from string, policy *kubevirtv1.InferFromVolumeFailurePolicy,
) (forget bool, err error) {
	if from == "" || vm.Spec.Template == nil {
		return false, nil
	}
	ignore := policy != nil && *policy == kubevirtv1.IgnoreInferFromVolumeFailure
	for i := range vm.Spec.Template.Spec.Volumes {
		v := &vm.Spec.Template.Spec.Volumes[i]
		if v.Name != from {
			continue
		}
		err = whyNotInferable(vm, v)
		if err != nil && ignore {
			return true, nil
		}
		return false, err
	}
	return false, fmt.Errorf("unable to find volume %s to infer defaults", from)
}

// whyNotInferable returns why nothing can be inferred from a volume, whatever exists in the cluster, in KubeVirt's
// words; nil if it can.
func whyNotInferable(vm *kubevirtv1.VirtualMachine, v *kubevirtv1.Volume) error {
	switch {
	case v.PersistentVolumeClaim != nil:
		return nil
	case v.DataVolume == nil:
		return fmt.Errorf("unable to infer defaults from volume %s as type is not supported", v.Name)
	}
	for i := range vm.Spec.DataVolumeTemplates {
		t := &vm.Spec.DataVolumeTemplates[i]
		if t.Name != v.DataVolume.Name {
			continue
		}
		switch {
		case t.Spec.Source != nil && (t.Spec.Source.PVC != nil || t.Spec.Source.Snapshot != nil):
			return nil
		case t.Spec.SourceRef == nil:
			return errors.New("unable to infer defaults from DataVolumeSpec as DataVolumeSource is not supported")
		case t.Spec.SourceRef.Kind != "DataSource":
			return fmt.Errorf("unable to infer defaults from DataVolumeSourceRef as Kind %s is not supported",
				t.Spec.SourceRef.Kind)
		default:
			return nil
		}
	}
	return nil
}
