package cluster

import (
	"context"
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/instance"
	"github.com/virtflow/virtflow/crdwatch/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// CreateVMI makes the instance of a VM, and keeps the specification that it was made from as a ControllerRevision.
// Idempotent: the instance has the VM's name and the revision a name from the VM's UID and generation; one that the VM controls already, or
// that nobody controls, is returned as Existing.
func (a *Activities) CreateVMI(ctx context.Context, in contract.CreateVMIInput) (contract.CreateVMIResult, error) {
	var out contract.CreateVMIResult
	vm, err := a.KubeVirt.VMs(in.VM.Namespace).Get(ctx, in.VM.Name, metav1.GetOptions{})
	if err != nil {
		return out, failure("reading VirtualMachine "+in.VM.Name, err)
	}
	switch {
	case string(vm.UID) != in.VM.UID:
		return out, gone("VirtualMachine %s is another one by now (UID %s)", in.VM.Name, vm.UID)
	case vm.DeletionTimestamp != nil:
		return out, gone("VirtualMachine %s is being deleted", in.VM.Name)
	case vm.Generation < in.Generation:
		return out, temporal.NewApplicationError(
			fmt.Sprintf("VirtualMachine %s was read at generation %d, wanted is %d", in.VM.Name, vm.Generation, in.Generation), errorKubernetes)
	}
	vmi, err := instance.New(vm, a.Settings(), instance.Request{Paused: in.Paused, Actor: in.Actor, Now: a.Now()})
	if err != nil {
		return out, a.refused(ctx, in.VM, final(contract.ErrorInvalid, err.Error()))
	}
	if err := a.keepRevision(ctx, vm, in.Revision); err != nil {
		return out, a.refused(ctx, in.VM, err)
	}
	made, err := a.KubeVirt.VMIs(vm.Namespace).Create(ctx, vmi, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return a.existingVMI(ctx, in.VM)
	}
	if err != nil {
		return out, a.refused(ctx, in.VM, failure("creating VirtualMachineInstance "+vmi.Name, err))
	}
	a.fresh.Add(string(made.UID), made.DeepCopy(), freshFor)
	a.events.tell(ctx, kindVM, in.VM, normal("SuccessfulCreate",
		"Started the virtual machine by creating the new virtual machine instance "+made.Name), string(made.UID))
	return contract.CreateVMIResult{VMI: observe.VMI(made)}, nil
}

// refused records that no instance could be made, once per reason, and passes the error on.
func (a *Activities) refused(ctx context.Context, vm contract.Object, err error) error {
	message := message(err)
	a.events.tell(ctx, kindVM, vm, warning("FailedCreate", "Error creating virtual machine instance: "+message), message)
	return err
}

func (a *Activities) existingVMI(ctx context.Context, vm contract.Object) (contract.CreateVMIResult, error) {
	vmi, err := a.KubeVirt.VMIs(vm.Namespace).Get(ctx, vm.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return contract.CreateVMIResult{}, temporal.NewApplicationError("VirtualMachineInstance "+vm.Name+" was there a moment ago", errorKubernetes)
	}
	if err != nil {
		return contract.CreateVMIResult{}, failure("reading VirtualMachineInstance "+vm.Name, err)
	}
	switch ref := observe.OwnerVM(vmi); {
	case ref != nil && string(ref.UID) == vm.UID:
	case metav1.GetControllerOfNoCopy(vmi) == nil && vmi.DeletionTimestamp == nil:
		if vmi, err = a.takeUp(ctx, vm, vmi); err != nil {
			return contract.CreateVMIResult{}, a.refused(ctx, vm, err)
		}
		if err := a.leaveAgain(ctx, vm, vmi); err != nil {
			return contract.CreateVMIResult{}, err
		}
	default:
		return contract.CreateVMIResult{}, a.refused(ctx, vm, final(contract.ErrorConflict, fmt.Sprintf(
			"VirtualMachineInstance %s exists (UID %s) and does not belong to this VirtualMachine: delete it, or give the VirtualMachine another name",
			vm.Name, vmi.UID)))
	}
	return contract.CreateVMIResult{VMI: observe.VMI(vmi), Existing: true}, nil
}

// takeUp makes an instance the VM's that has its name and nobody who controls it, such as one whose VM was deleted without it.
func (a *Activities) takeUp(ctx context.Context, vm contract.Object, vmi *kubevirt.VirtualMachineInstance) (*kubevirt.VirtualMachineInstance, error) {
	owner := metav1.NewControllerRef(&metav1.ObjectMeta{Name: vm.Name, UID: types.UID(vm.UID)}, kubevirt.VirtualMachineGroupVersionKind)
	metadata := locked(string(vmi.UID), vmi.ResourceVersion)
	metadata["ownerReferences"] = append(slices.Clone(vmi.OwnerReferences), *owner)
	if !slices.Contains(vmi.Finalizers, contract.FinalizerVM) {
		metadata["finalizers"] = append(slices.Clone(vmi.Finalizers), contract.FinalizerVM)
	}
	body, err := merge{"metadata": metadata}.encode()
	if err != nil {
		return nil, err
	}
	now, err := a.KubeVirt.VMIs(vm.Namespace).Patch(ctx, vm.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return nil, failure("taking up VirtualMachineInstance "+vm.Name, err)
	}
	return now, nil
}

// leaveAgain gives up an instance that was taken up just when the VM was being deleted. If that was with --cascade=orphan, the garbage collector
// may have looked for what it is to leave alone before this was there; whatever the deletion was, it was not about this instance.
func (a *Activities) leaveAgain(ctx context.Context, vm contract.Object, vmi *kubevirt.VirtualMachineInstance) error {
	owner, err := a.KubeVirt.VMs(vm.Namespace).Get(ctx, vm.Name, metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return failure("reading VirtualMachine "+vm.Name, err)
	case err == nil && string(owner.UID) == vm.UID && owner.DeletionTimestamp == nil:
		return nil
	}
	for look := 1; controls(vm, vmi); look++ {
		metadata := locked(string(vmi.UID), vmi.ResourceVersion)
		metadata["ownerReferences"] = slices.DeleteFunc(slices.Clone(vmi.OwnerReferences), func(o metav1.OwnerReference) bool { return string(o.UID) == vm.UID })
		body, err := merge{"metadata": metadata}.encode()
		if err != nil {
			return err
		}
		_, err = a.KubeVirt.VMIs(vm.Namespace).Patch(ctx, vm.Name, types.MergePatchType, body, metav1.PatchOptions{})
		if err == nil || otherObject(err) {
			break
		}
		if !apierrors.IsConflict(err) || look == looks {
			return failure("leaving VirtualMachineInstance "+vm.Name, err)
		}
		if vmi, err = a.KubeVirt.VMIs(vm.Namespace).Get(ctx, vm.Name, metav1.GetOptions{}); err != nil {
			return failure("reading VirtualMachineInstance "+vm.Name, err)
		}
	}
	return gone("VirtualMachine %s is being deleted", vm.Name)
}

func controls(vm contract.Object, vmi *kubevirt.VirtualMachineInstance) bool {
	ref := metav1.GetControllerOfNoCopy(vmi)
	return ref != nil && string(ref.UID) == vm.UID
}

// DeleteVMI deletes the instance of a VM; its own finalizers hold it until its pod has ended.
// Idempotent: neither a second attempt nor a newer instance of the name is touched, nor one that the VM controls no more.
func (a *Activities) DeleteVMI(ctx context.Context, in contract.DeleteVMIInput) (contract.DeleteResult, error) {
	vmi := contract.Object{Namespace: in.VM.Namespace, Name: in.VMI.Name, UID: in.VMI.UID}
	if vmi.Name == "" {
		vmi.Name = in.VM.Name
	}
	found, err := a.deleteOwn(ctx, vmi, in.VM.UID)
	if err != nil {
		err = failure("deleting VirtualMachineInstance "+vmi.Name, err)
		a.events.tell(ctx, kindVM, in.VM, warning("FailedDelete", "Error deleting virtual machine instance "+vmi.Name+": "+message(err)), vmi.UID)
		return contract.DeleteResult{}, err
	}
	switch found.fate {
	case fateFree:
		if vmi.UID == "" {
			return contract.DeleteResult{Absent: true}, nil
		}
		return a.deleteFree(ctx, in, found.vmi)
	case fateForeign:
		return contract.DeleteResult{Absent: true, Left: vmi.UID != ""}, nil
	case fateAbsent:
		return contract.DeleteResult{Absent: true}, nil
	case fateDeleted:
	}
	a.events.tell(ctx, kindVM, in.VM, normal("SuccessfulDelete",
		"Stopped the virtual machine by deleting the virtual machine instance "+found.uid), found.uid)
	return contract.DeleteResult{}, nil
}

// deleteFree decides about an instance that nobody controls. A VM that is deleted with --cascade=orphan leaves it behind, and may show
// no sign of that any more: the garbage collector has taken the finalizer away. A VM that stays takes it up first, as KubeVirt's controller does.
func (a *Activities) deleteFree(ctx context.Context, in contract.DeleteVMIInput, vmi *kubevirt.VirtualMachineInstance) (contract.DeleteResult, error) {
	vm := in.VM
	owner, err := a.KubeVirt.VMs(vm.Namespace).Get(ctx, vm.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && (string(owner.UID) != vm.UID || owner.DeletionTimestamp != nil):
		return contract.DeleteResult{Absent: true, Left: true}, nil
	case err != nil:
		return contract.DeleteResult{}, failure("reading VirtualMachine "+vm.Name, err)
	case vmi.DeletionTimestamp != nil: // somebody else has asked for its end
		return contract.DeleteResult{}, nil
	}
	if _, err := a.takeUp(ctx, vm, vmi); err != nil {
		return contract.DeleteResult{}, err
	}
	return a.DeleteVMI(ctx, in)
}

func uidOf(s string) *types.UID {
	u := types.UID(s)
	return &u
}
