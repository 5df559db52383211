package cluster

import (
	"context"

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
	fateAbsent       // there is none of that UID
	fateFree         // nobody controls it: it was left alone
	fateForeign      // somebody else controls it, or it was set aside: it was left alone
)

// looks is how often an instance is looked at in one attempt to delete it: it may change just then.
const looks = 5

type deletion struct {
	fate fate
	uid  string                           // of what was deleted
	vmi  *kubevirt.VirtualMachineInstance // as it was last, where it was left alone
}

// deleteOwn deletes the instance of a VM. As a rule it is the VM's still, and one request does it: the API server's policy virtflow-instances refuses
// to delete by UID alone what no VirtualMachine of the name controls. Only then is there anything to look at.
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
