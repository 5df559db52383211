package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/render"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/observe"
)

// makeState makes the PVC for the persistent state of an instance (TPM, EFI variables), if it needs one and there is
// none. Its name derives from its owner's UID, so that an existing one is found.
func (a *Activities) makeState(ctx context.Context, vmi *kubevirt.VirtualMachineInstance) error {
	wanted := render.StateClaim(vmi, a.Settings())
	if wanted == nil {
		return nil
	}
	found, err := a.readClaim(ctx, vmi.Namespace, wanted.Name)
	if err != nil {
		return err
	}
	owner := wanted.OwnerReferences[0]
	if found == nil {
		_, err := a.Kubernetes.CoreV1().PersistentVolumeClaims(vmi.Namespace).
			Create(ctx, wanted, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return creationFailure("creating PersistentVolumeClaim "+wanted.Name, err)
		}
		return nil
	}
	if by := metav1.GetControllerOf(found); by == nil || by.UID != owner.UID {
		return nonRetryable(contract.ErrorConflict, fmt.Sprintf("PersistentVolumeClaim %s exists (UID %s) and does "+
			"not belong to %s %s: delete it", found.Name, found.UID, owner.Kind, owner.Name))
	}
	return nil
}

// readState reads the PVC of an instance's persistent state; nil: the instance needs none. It returns what the instance
// waits for if the PVC cannot be used.
func (a *Activities) readState(
	ctx context.Context, vmi *kubevirt.VirtualMachineInstance,
) (*contract.VolumeClaim, *contract.Awaits, error) {
	name, needed := claims.State(vmi)
	if !needed {
		return nil, nil, nil
	}
	pvc, err := a.readClaim(ctx, vmi.Namespace, name)
	if err != nil {
		return nil, nil, err
	}
	o := observe.VolumeClaim(claims.StateVolume, name, pvc)
	var awaits *contract.Awaits
	switch {
	case pvc == nil:
		awaits = &contract.Awaits{Reason: contract.ReasonNoState,
			Message: fmt.Sprintf("PVC %s/%s, which holds the VM's persistent state (vTPM, EFI variables), does not "+
				"exist", vmi.Namespace, name)}
	case pvc.DeletionTimestamp != nil: // a pod that waited for it would keep another from being made
		awaits = &contract.Awaits{Reason: contract.ReasonNoState, Message: fmt.Sprintf("PVC %s/%s, which holds "+
			"the VM's persistent state (vTPM, EFI variables), is being deleted: an empty one is made when it is gone",
			vmi.Namespace, name)}
	}
	return &o, awaits, nil
}
