package diff

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/internal/runstrategy"
)

// copies sends VMs the observations of their instances.
type copies struct{ *record }

// sendInstanceOf sends a VM that was not known its instance, which may have been seen before it.
func (c copies) sendInstanceOf(vm *kubevirt.VirtualMachine, from delivery.Cause) {
	if vmi, ok := watch.Get[*kubevirt.VirtualMachineInstance](c.informers.VMIs, vm.Namespace+"/"+vm.Name); ok {
		c.send(vmi, from)
	}
}

func (c copies) forgetInstanceOf(vm *kubevirt.VirtualMachine) {
	if vmi, ok := watch.Get[*kubevirt.VirtualMachineInstance](c.informers.VMIs, vm.Namespace+"/"+vm.Name); ok {
		forget(c.record, copyKind(), string(vmi.UID))
	}
}

// send sends a VMI to the VM that controls it. An instance does not start the workflow of its VM; that gets the
// instance when the VM appears or is sent again. A VM that stays also gets an instance that was made for it and has
// since lost its ownerReference.
func (c copies) send(vmi *kubevirt.VirtualMachineInstance, from delivery.Cause) {
	ref, controls := observe.OwnerVM(vmi), true
	if ref == nil {
		ref, controls = c.formerOwner(vmi), false
	}
	if ref == nil {
		return
	}
	o := c.informers.ObserveVMI(vmi)
	o.OwnerUID = string(ref.UID)
	o = observe.VMIForVM(o)
	k, workflow := copyKind(), contract.VMID(vmi.Namespace, ref.Name)
	vm, ok := watch.Get[*kubevirt.VirtualMachine](c.informers.VMs, vmi.Namespace+"/"+ref.Name)
	if !ok || vm.UID != ref.UID {
		put(c.record, k, workflow, o.UID, o, nil, from)
		return
	}
	_, known := recall(c.record, k, o.UID)
	isNew := !known && controls && k.same(observe.NewCopy(o), o) && runstrategy.Unasked(new(observe.VM(vm)))
	if recordNew(c.record, k, o.UID, o) {
		put(c.record, k, workflow, o.UID, o, nil, refine(from, copyCause(o, vm.DeletionTimestamp != nil, isNew)))
	}
}

// formerOwner returns the VM that an instance without a controller was made for, as long as that VM is to stay; or nil.
func (c copies) formerOwner(vmi *kubevirt.VirtualMachineInstance) *metav1.OwnerReference {
	if metav1.GetControllerOfNoCopy(vmi) != nil {
		return nil
	}
	vm, ok := watch.Get[*kubevirt.VirtualMachine](c.informers.VMs, vmi.Namespace+"/"+vmi.Name)
	if !ok || vm.DeletionTimestamp != nil || !observe.MadeFor(vmi, string(vm.UID)) {
		return nil
	}
	return &metav1.OwnerReference{Name: vm.Name, UID: vm.UID}
}

// sendGone sends the end of a VMI to the VM that controls it. If it has no controller, it goes to the VM of its
// name, which may wait for an instance that lost its ownerReference while it was deleted (kubectl delete vm
// --cascade=orphan).
func (c copies) sendGone(vmi *kubevirt.VirtualMachineInstance, from delivery.Cause) {
	uid := string(vmi.UID)
	forget(c.record, copyKind(), uid)
	name := vmi.Name
	if ref := observe.OwnerVM(vmi); ref != nil {
		name = ref.Name
	} else if metav1.GetControllerOfNoCopy(vmi) != nil {
		return
	} else if _, ok := watch.Get[*kubevirt.VirtualMachine](c.informers.VMs, vmi.Namespace+"/"+name); !ok {
		return
	}
	put(c.record, copyKind(), contract.VMID(vmi.Namespace, name), uid, observe.GoneVMI(uid), nil, from)
}
