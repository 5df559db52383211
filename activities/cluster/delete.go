package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/render"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/internal/runstrategy"
)

// maxReads is how often one attempt reads an object that it changes in the version that it has read: it may change in
// between.
const maxReads = 5

var (
	errUnsettled = errors.New("the object changed at each attempt")
	errUnchanged = errors.New("conflict without a new resourceVersion")
)

// DeleteVMI deletes the instance of a VM; its own finalizers hold it until its pod has ended. The caller may remember
// what is true no longer. So both are read, and the very version of the instance that was read is deleted, only if the
// VM goes, or asks for the end of this instance, or if the instance is what a cancelled start has made, and its guest
// has never run. Idempotent: neither a second attempt nor a newer instance of the name is touched, nor one that the VM
// does not control any more.
func (a *Activities) DeleteVMI(ctx context.Context, in contract.DeleteVMIInput) (contract.DeleteVMIResult, error) {
	out, err := a.deleteVMI(ctx, in)
	if err != nil {
		err = failure("deleting VirtualMachineInstance "+in.VM.Name, err)
		a.recordEvent(kindVM, in.VM, warningEvent(contract.ReasonFailedDelete,
			"Error deleting virtual machine instance "+in.VM.Name+": "+message(err)), in.VMI.UID)
	}
	return out, err
}

// deleteVMI is DeleteVMI with the errors of the API server.
func (a *Activities) deleteVMI(ctx context.Context, in contract.DeleteVMIInput) (contract.DeleteVMIResult, error) {
	for range maxReads {
		// The instance is read first: whatever takes it from its VM after that changes it, and then there is nothing of
		// this version to delete.
		vmi, err := a.KubeVirt.VMIs(in.VM.Namespace).Get(ctx, in.VM.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && in.VMI.UID != "" && string(vmi.UID) != in.VMI.UID {
			return contract.DeleteVMIResult{Absent: true}, nil
		}
		if err != nil {
			return contract.DeleteVMIResult{}, err
		}
		vm, err := a.KubeVirt.VMs(in.VM.Namespace).Get(ctx, in.VM.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && string(vm.UID) != in.VM.UID {
			vm = nil
		} else if err != nil {
			return contract.DeleteVMIResult{}, err
		}
		answer, err := a.checkDeletable(ctx, in, vm, vmi)
		switch {
		case err != nil:
			return contract.DeleteVMIResult{}, err
		case answer != nil:
			return *answer, nil
		case metav1.GetControllerOfNoCopy(vmi) == nil:
			// KubeVirt's controller adopts it, too, before it does anything with it.
			_, err = a.adopt(ctx, in.VM, vmi)
		default:
			if err = a.deleteVersion(ctx, vmi); err == nil {
				if vmi.Status.Reason == contract.ReasonEvicted {
					a.recordEvent(kindVM, in.VM, warningEvent(contract.ReasonEvicted, "The pod of the virtual machine "+
						"instance "+string(vmi.UID)+" was deleted while its guest ran, which ended with it"),
						string(vmi.UID))
				}
				a.recordEvent(kindVM, in.VM, normalEvent("SuccessfulDelete",
					"Stopped the virtual machine by deleting the virtual machine instance "+
						string(vmi.UID)), string(vmi.UID))
				return contract.DeleteVMIResult{UID: string(vmi.UID)}, nil
			}
		}
		if err != nil && !apierrors.IsConflict(err) && !isOtherObject(err) {
			return contract.DeleteVMIResult{}, err
		}
	}
	return contract.DeleteVMIResult{}, errUnsettled
}

// checkDeletable returns the answer where an instance is not to be deleted, or is being deleted already; nil: it is to
// be deleted. A VM of nil is gone.
func (a *Activities) checkDeletable(
	ctx context.Context, in contract.DeleteVMIInput, vm *kubevirt.VirtualMachine, vmi *kubevirt.VirtualMachineInstance,
) (*contract.DeleteVMIResult, error) {
	orphaned := &contract.DeleteVMIResult{Absent: true, Orphaned: in.VMI.UID != ""}
	controller := metav1.GetControllerOfNoCopy(vmi)
	if controller != nil && string(controller.UID) != in.VM.UID || controller == nil && in.VMI.UID == "" {
		return orphaned, nil
	}
	goes := vm == nil || vm.DeletionTimestamp != nil
	if goes {
		if stays, err := a.isOrphaned(ctx, vm, vmi, controller == nil); err != nil || stays {
			return orphaned, err
		}
	}
	if vmi.DeletionTimestamp != nil {
		return &contract.DeleteVMIResult{UID: string(vmi.UID)}, nil
	}
	if goes {
		return nil, nil // it is to be deleted
	}
	machine, instance := observe.VM(vm), observe.VMIForVM(observe.VMI(vmi))
	why, err := a.whyRetained(ctx, &machine, &instance, vmi, in.MadeBy)
	if err != nil || why == "" {
		return nil, err
	}
	return &contract.DeleteVMIResult{Refused: why, VM: &machine, VMI: &instance}, nil
}

// whyRetained returns why an instance is not to be deleted as long as its VM is there; "": it is to be deleted.
// Cancelled is the transition that is being compensated, if any. That a guest has run shows in its pod first: the
// status is written a little later.
func (a *Activities) whyRetained(
	ctx context.Context, vm *contract.VMObservation, o *contract.VMIObservation, vmi *kubevirt.VirtualMachineInstance,
	cancelled string,
) (string, error) {
	desired, _ := runstrategy.Desired(vm, o, vm.StatusRunStrategy)
	switch {
	case desired.Operation == contract.OperationStop, desired.Operation == contract.OperationRestart:
		return "", nil
	case cancelled == "":
		return fmt.Sprintf("run strategy %s does not ask for the end of the instance now", vm.RunStrategy), nil
	case vmi.Annotations[contract.AnnotationTransition] != cancelled:
		return "the instance was not made by the start that was cancelled", nil
	}
	ran := o.EverRan || o.Phase == string(kubevirt.Running)
	if !ran {
		pod, err := a.Kubernetes.CoreV1().Pods(vmi.Namespace).
			Get(ctx, render.PodName(vmi.Name, string(vmi.UID)), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return "", err
		}
		ran = err == nil && observe.Pod(pod).Unpaused != ""
	}
	if ran {
		return "the instance was made by the start that was cancelled, but its guest has run", nil
	}
	return "", nil
}

// isOrphaned reports whether a VM which is gone or being deleted orphans an instance. A finalizer of the VM shows it,
// until the garbage collector has removed the VM from all dependents' owners. The revision that the instance was made
// from is one of them. Where that is still the VM's, only the instance was released, and not by the garbage collector.
// Free: the instance has no controller.
func (a *Activities) isOrphaned(
	ctx context.Context, vm *kubevirt.VirtualMachine, vmi *kubevirt.VirtualMachineInstance, free bool,
) (bool, error) {
	name := vmi.Status.VirtualMachineRevisionName
	switch {
	case vm != nil && slices.Contains(vm.Finalizers, metav1.FinalizerOrphanDependents):
		return true, nil
	case !free:
		return false, nil
	case vm == nil, name == "":
		return true, nil
	}
	revision, err := a.Kubernetes.AppsV1().ControllerRevisions(vm.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return !metav1.IsControlledBy(revision, vm), nil
}

// deleteVersion deletes an instance in the version that was read, or does nothing. Errors are the API server's.
func (a *Activities) deleteVersion(ctx context.Context, vmi *kubevirt.VirtualMachineInstance) error {
	err := a.KubeVirt.VMIs(vmi.Namespace).Delete(ctx, vmi.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &vmi.UID, ResourceVersion: &vmi.ResourceVersion},
	})
	if err == nil {
		a.fresh.Remove(string(vmi.UID))
	}
	return err
}
