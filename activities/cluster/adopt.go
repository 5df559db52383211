package cluster

import (
	"context"
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

// existingVMI returns the answer of CreateVMI if an instance has the name already.
func (a *Activities) existingVMI(ctx context.Context, vm contract.Object) (contract.CreateVMIResult, error) {
	vmi, err := a.KubeVirt.VMIs(vm.Namespace).Get(ctx, vm.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return contract.CreateVMIResult{},
			temporal.NewApplicationError("VirtualMachineInstance "+vm.Name+" was there a moment ago", errorKubernetes)
	}
	if err != nil {
		return contract.CreateVMIResult{}, failure("reading VirtualMachineInstance "+vm.Name, err)
	}
	switch ref := observe.OwnerVM(vmi); {
	case ref != nil && string(ref.UID) == vm.UID:
	case metav1.GetControllerOfNoCopy(vmi) == nil && vmi.DeletionTimestamp == nil:
		if vmi, err = a.adopt(ctx, vm, vmi); err != nil {
			return contract.CreateVMIResult{},
				a.recordRefusal(vm, failure("adopting VirtualMachineInstance "+vm.Name, err))
		}
		owner, err := a.KubeVirt.VMs(vm.Namespace).Get(ctx, vm.Name, metav1.GetOptions{})
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return contract.CreateVMIResult{}, failure("reading VirtualMachine "+vm.Name, err)
		case err != nil || string(owner.UID) != vm.UID || owner.DeletionTimestamp != nil:
			return contract.CreateVMIResult{},
				a.release(ctx, vm, string(vmi.UID), goneError("VirtualMachine %s is being deleted", vm.Name))
		}
	default:
		return contract.CreateVMIResult{}, a.recordRefusal(vm, nonRetryable(contract.ErrorConflict, fmt.Sprintf(
			"VirtualMachineInstance %s exists (UID %s) and does not belong to this VirtualMachine: delete it, or "+
				"give the VirtualMachine another name",
			vm.Name, vmi.UID)))
	}
	return contract.CreateVMIResult{VMI: observe.VMI(vmi)}, nil
}

// ownVMI returns the instance of a VM's name if the VM controls it, as one that an earlier attempt made; else nil.
func (a *Activities) ownVMI(ctx context.Context, vm contract.Object) (*kubevirt.VirtualMachineInstance, error) {
	vmi, err := a.KubeVirt.VMIs(vm.Namespace).Get(ctx, vm.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && !isControllerOf(vm, vmi):
		return nil, nil // no such instance
	case err != nil:
		return nil, failure("reading VirtualMachineInstance "+vm.Name, err)
	}
	return vmi, nil
}

// adopt makes a VM the controller of an instance of its name that has no controller, such as one whose VM was deleted
// without it. Errors are the API server's.
func (a *Activities) adopt(
	ctx context.Context, vm contract.Object, vmi *kubevirt.VirtualMachineInstance,
) (*kubevirt.VirtualMachineInstance, error) {
	owner := metav1.NewControllerRef(&metav1.ObjectMeta{Name: vm.Name, UID: types.UID(vm.UID)},
		kubevirt.VirtualMachineGroupVersionKind)
	var finalizers *[]string
	if !slices.Contains(vmi.Finalizers, contract.FinalizerVM) {
		with := append(slices.Clone(vmi.Finalizers), contract.FinalizerVM)
		finalizers = &with
	}
	return a.writeOwners(ctx, vmi, append(slices.Clone(vmi.OwnerReferences), *owner), finalizers)
}

// writeOwners gives an instance other owners, and finalizers unless they are nil, in the version that was read. Errors
// are the API server's.
func (a *Activities) writeOwners(
	ctx context.Context, vmi *kubevirt.VirtualMachineInstance, owners []metav1.OwnerReference, finalizers *[]string,
) (*kubevirt.VirtualMachineInstance, error) {
	metadata := locked(string(vmi.UID), vmi.ResourceVersion)
	metadata["ownerReferences"] = owners
	metadata.setFinalizers(finalizers)
	body, err := merge{"metadata": metadata}.encode()
	if err != nil {
		return nil, err
	}
	return a.KubeVirt.VMIs(vmi.Namespace).Patch(ctx, vmi.Name, types.MergePatchType, body, metav1.PatchOptions{})
}

// withoutOwner returns an instance's owners without the one of that UID.
func withoutOwner(vmi *kubevirt.VirtualMachineInstance, uid string) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(vmi.OwnerReferences), func(o metav1.OwnerReference) bool {
		return string(o.UID) == uid
	})
}

// release takes the VM's reference off an instance that was adopted while the VM was being deleted already, and returns
// why nothing is made. If the deletion is with --cascade=orphan, the garbage collector may have looked for dependents
// before the instance was one; whatever the deletion is, it was not about this instance. Adopted is the UID of one that
// this attempt has adopted; an attempt before may have adopted any that was not made for the VM.
func (a *Activities) release(ctx context.Context, vm contract.Object, adopted string, why error) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		vmi, err := a.KubeVirt.VMIs(vm.Namespace).Get(ctx, vm.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case !isControllerOf(vm, vmi), string(vmi.UID) != adopted && observe.MadeFor(vmi, vm.UID):
			return nil
		}
		_, err = a.writeOwners(ctx, vmi, withoutOwner(vmi, vm.UID), nil)
		return err
	})
	if err == nil || isOtherObject(err) { // an instance that is gone needs no release
		return why
	}
	return failure("releasing VirtualMachineInstance "+vm.Name, err)
}

// isControllerOf reports whether the VM is the controller of the instance.
func isControllerOf(vm contract.Object, vmi *kubevirt.VirtualMachineInstance) bool {
	ref := metav1.GetControllerOfNoCopy(vmi)
	return ref != nil && string(ref.UID) == vm.UID
}
