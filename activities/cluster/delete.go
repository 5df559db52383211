package cluster

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// fate is what became of an instance that was to be deleted.
type fate int

// Fates.
const (
	fateDeleted fate = iota
	fateEnding       // somebody else has deleted it, and its end is to be waited for
	fateAbsent       // there is none of that UID
	fateFree         // nobody controls it: it was left alone
	fateForeign      // somebody else controls it, or it was set aside: it was left alone
	fateLeft         // it was the VM's, which goes without it
)

// looks is how often an instance is looked at in one attempt to delete it, or to leave it: it may change just then.
const looks = 5

var errUnsettled = errors.New("whose it is changes all the time")

type deletion struct {
	fate fate
	uid  string                           // of what was deleted
	vmi  *kubevirt.VirtualMachineInstance // as it was last, where it was left alone
}

// DeleteVMI deletes the instance of a VM; its own finalizers hold it until its pod has ended.
// Idempotent: neither a second attempt nor a newer instance of the name is touched, nor one that no VM of the name controls any more.
func (a *Activities) DeleteVMI(ctx context.Context, in contract.DeleteVMIInput) (contract.DeleteResult, error) {
	vmi := contract.Object{Namespace: in.VM.Namespace, Name: in.VMI.Name, UID: in.VMI.UID}
	if vmi.Name == "" {
		vmi.Name = in.VM.Name
	}
	found, err := a.deleteOwn(ctx, vmi, in.VM.UID)
	if err == nil && found.fate == fateFree && vmi.UID != "" {
		found, err = a.deleteFree(ctx, in.VM, found.vmi)
	}
	if err != nil {
		err = failure("deleting VirtualMachineInstance "+vmi.Name, err)
		a.events.tell(ctx, kindVM, in.VM, warning("FailedDelete", "Error deleting virtual machine instance "+vmi.Name+": "+message(err)), vmi.UID)
		return contract.DeleteResult{}, err
	}
	switch found.fate {
	case fateEnding:
		return contract.DeleteResult{}, nil
	case fateForeign, fateLeft:
		return contract.DeleteResult{Absent: true, Left: vmi.UID != ""}, nil
	case fateAbsent, fateFree:
		return contract.DeleteResult{Absent: true}, nil
	case fateDeleted:
	}
	a.events.tell(ctx, kindVM, in.VM, normal("SuccessfulDelete",
		"Stopped the virtual machine by deleting the virtual machine instance "+found.uid), found.uid)
	return contract.DeleteResult{}, nil
}

// deleteOwn deletes the instance of a VM. As a rule it is the VM's still, and one request does it: the API server's policy virtflow-instances refuses
// to delete by UID alone what no VirtualMachine of the name controls. Only then is there anything to look at. (A VM of the name and another UID is
// not made before this one has gone, which waits for its transition.)
func (a *Activities) deleteOwn(ctx context.Context, vmi contract.Object, vm string) (deletion, error) {
	if vmi.UID == "" {
		return a.deleteVMI(ctx, vmi, vm, nil)
	}
	err := a.KubeVirt.VMIs(vmi.Namespace).Delete(ctx, vmi.Name, *metav1.NewPreconditionDeleteOptions(vmi.UID))
	switch {
	case apierrors.IsInvalid(err):
		return a.deleteVMI(ctx, vmi, vm, nil)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return deletion{fate: fateAbsent}, nil
	case err != nil:
		return deletion{}, err
	}
	a.fresh.Remove(vmi.UID)
	return deletion{uid: vmi.UID}, nil
}

// deleteVMI deletes an instance as long as owner, a UID, controls it, and keep (nil: none) does not ask for it to stay. An empty UID of the
// instance means whichever has the name. Whoever decided about the instance may have seen an older one: it may have been taken from its owner
// since, by the garbage collector (--cascade=orphan) or by hand, and be another's by now. So the version that is looked at here is the one that is
// deleted, or none. Errors are the API server's.
func (a *Activities) deleteVMI(ctx context.Context, o contract.Object, owner string, keep func(*kubevirt.VirtualMachineInstance) bool) (deletion, error) {
	vmis := a.KubeVirt.VMIs(o.Namespace)
	for look := 1; ; look++ {
		vmi, err := vmis.Get(ctx, o.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && o.UID != "" && string(vmi.UID) != o.UID {
			return deletion{fate: fateAbsent}, nil
		}
		if err != nil {
			return deletion{}, err
		}
		switch ref := metav1.GetControllerOfNoCopy(vmi); {
		case ref == nil:
			return deletion{fate: fateFree, vmi: vmi}, nil
		case string(ref.UID) != owner, keep != nil && keep(vmi):
			return deletion{fate: fateForeign, vmi: vmi}, nil
		}
		uid, version := vmi.UID, vmi.ResourceVersion
		err = vmis.Delete(ctx, o.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
		switch {
		case err == nil:
			a.fresh.Remove(string(uid))
			return deletion{uid: string(uid)}, nil
		case apierrors.IsNotFound(err):
			return deletion{fate: fateAbsent}, nil
		case !apierrors.IsConflict(err) || look == looks:
			return deletion{}, err
		}
	}
}

// deleteFree decides about an instance that nobody controls. A VM that is deleted with --cascade=orphan leaves it behind. Otherwise somebody has
// only taken the reference away, and the VM takes it up first, as KubeVirt's controller does.
func (a *Activities) deleteFree(ctx context.Context, vm contract.Object, vmi *kubevirt.VirtualMachineInstance) (deletion, error) {
	owner, err := a.KubeVirt.VMs(vm.Namespace).Get(ctx, vm.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && string(owner.UID) != vm.UID:
		return deletion{fate: fateLeft, vmi: vmi}, nil
	case err != nil:
		return deletion{}, err
	case owner.DeletionTimestamp != nil:
		if alone, err := a.leavesAlone(ctx, owner, vmi); err != nil || alone {
			return deletion{fate: fateLeft, vmi: vmi}, err
		}
	}
	if vmi.DeletionTimestamp != nil {
		return deletion{fate: fateEnding, vmi: vmi}, nil
	}
	_, err = a.takeUp(ctx, vm, vmi)
	switch {
	case apierrors.IsNotFound(err):
		return deletion{fate: fateAbsent}, nil
	case err != nil:
		return deletion{}, err
	}
	found, err := a.deleteOwn(ctx, contract.Object{Namespace: vmi.Namespace, Name: vmi.Name, UID: string(vmi.UID)}, vm.UID)
	if err == nil && found.fate == fateFree {
		err = errUnsettled
	}
	return found, err
}

// leavesAlone says that a VM which is being deleted leaves its dependents alone: a finalizer says so, until the garbage collector has taken all
// of them from the VM. The revision that the instance was made from is one of them. Where that is still the VM's, only the instance was taken, and by
// somebody else.
func (a *Activities) leavesAlone(ctx context.Context, vm *kubevirt.VirtualMachine, vmi *kubevirt.VirtualMachineInstance) (bool, error) {
	name := vmi.Status.VirtualMachineRevisionName
	if name == "" || slices.Contains(vm.Finalizers, metav1.FinalizerOrphanDependents) {
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
