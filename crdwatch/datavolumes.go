package crdwatch

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// templatesOf indexes VMs by the namespaces and names of the DataVolumes of their templates.
func templatesOf(o any) ([]string, error) {
	vm, ok := o.(*kubevirt.VirtualMachine)
	if !ok {
		return nil, nil
	}
	var out []string
	for i := range vm.Spec.DataVolumeTemplates {
		out = append(out, vm.Namespace+"/"+vm.Spec.DataVolumeTemplates[i].Name)
	}
	return out, nil
}

// observeVM observes a VM with the DataVolumes of its templates.
func (i *Informers) observeVM(vm *kubevirt.VirtualMachine) contract.VMObservation {
	version := i.claimsVersion()
	o := observe.VM(vm)
	for n := range vm.Spec.DataVolumeTemplates {
		name := vm.Spec.DataVolumeTemplates[n].Name
		dv, _ := get[*cdi.DataVolume](i.DataVolumes, vm.Namespace+"/"+name)
		pvc, _ := get[*corev1.PersistentVolumeClaim](i.Claims, vm.Namespace+"/"+name)
		o.DataVolumes, o.DataVolumesVersion = append(o.DataVolumes, observe.Template(name, dv, pvc)), version
	}
	return o
}

// dataVolume sends a DataVolume, or that it is gone, to the instances that have its claim, which has its name, and to
// the VMs that have it made.
func (d *differ) dataVolume(dv *cdi.DataVolume) {
	key := cache.MetaObjectToName(dv).String()
	for _, vmi := range indexed[*kubevirt.VirtualMachineInstance](d.informers.VMIs, byClaim, key) {
		d.entities.vmi.changed(d, cache.MetaObjectToName(vmi).String(), change)
	}
	for _, vm := range indexed[*kubevirt.VirtualMachine](d.informers.VMs, byTemplate, key) {
		d.entities.vm.changed(d, cache.MetaObjectToName(vm).String(), change)
	}
}
