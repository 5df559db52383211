package cluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/instance"
	"github.com/virtflow/virtflow/contract"
)

// keepRevision writes the VM's specification into a ControllerRevision, unless there is one.
func (a *Activities) keepRevision(ctx context.Context, vm *kubevirt.VirtualMachine) error {
	kept, err := instance.Revision(vm)
	if err != nil {
		return nonRetryable(contract.ErrorInvalid, err.Error())
	}
	_, err = a.Kubernetes.AppsV1().ControllerRevisions(vm.Namespace).Create(ctx, kept, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return creationFailure("creating ControllerRevision "+kept.Name, err)
	}
	return nil
}

// pruneRevisions removes the specification of the start before, whose name is last, unless the present instance was
// made from it. Where the caller does not know that name any more, but there was a start, the VM's revisions are
// listed.
func (a *Activities) pruneRevisions(ctx context.Context, vm *kubevirt.VirtualMachine, last, present string) error {
	revisions := a.Kubernetes.AppsV1().ControllerRevisions(vm.Namespace)
	var old []string
	switch {
	case last != "":
		old = append(old, last)
	case vm.Status.RunStrategy != "": // there was an instance
		list, err := revisions.List(ctx, metav1.ListOptions{})
		if err != nil {
			return unfinished("listing the ControllerRevisions of VirtualMachine "+vm.Name, err)
		}
		for i := range list.Items {
			if metav1.IsControlledBy(&list.Items[i], vm) {
				old = append(old, list.Items[i].Name)
			}
		}
	}
	for _, name := range old {
		if name == present {
			continue
		}
		if err := revisions.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return unfinished("deleting ControllerRevision "+name, err)
		}
	}
	return nil
}
