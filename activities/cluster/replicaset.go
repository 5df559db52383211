package cluster

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

// pageSize is the page size of a list of instances.
const pageSize = 500

// FindReplicas lists the instances that a set controls or might adopt, contract.MaxReplicasSeen of them at most.
// Nothing is changed.
func (a *Activities) FindReplicas(
	ctx context.Context, in contract.FindReplicasInput,
) (contract.FindReplicasResult, error) {
	var out contract.FindReplicasResult
	selector, err := labels.Parse(in.Selector)
	if err != nil {
		return out, nonRetryable(contract.ErrorInvalid, "reading selector "+in.Selector+": "+err.Error())
	}
	var mine, free []contract.ReplicaObservation
	keep := func(list []contract.ReplicaObservation, o contract.ReplicaObservation) []contract.ReplicaObservation {
		if len(list) == contract.MaxReplicasSeen {
			out.More++
			return list
		}
		return append(list, o)
	}
	for page := ""; ; {
		list, err := a.KubeVirt.VMIs(in.Set.Namespace).List(ctx, metav1.ListOptions{Limit: pageSize, Continue: page})
		if err != nil {
			return out, failure("listing the VirtualMachineInstances of namespace "+in.Set.Namespace, err)
		}
		for i := range list.Items {
			o := observe.Replica(&list.Items[i], selector)
			switch {
			case o.OwnerUID == in.Set.UID:
				mine = keep(mine, o)
			case o.OwnerUID == "" && o.Matches:
				free = keep(free, o)
			}
		}
		out.ResourceVersion = list.ResourceVersion
		if page = list.Continue; page == "" {
			fit := max(0, min(len(free), contract.MaxReplicasSeen-len(mine)))
			out.More += len(free) - fit
			out.Replicas = slices.Concat(mine, free[:fit])
			return out, nil
		}
	}
}

// ClaimReplicas makes a set the controller of instances without a controller, and releases instances that it controls.
// Both are read first: the set must still want them, and an instance that has changed since is not written. Idempotent:
// what is as it should be is not written; the resourceVersion just read is the lock.
func (a *Activities) ClaimReplicas(
	ctx context.Context, in contract.ClaimReplicasInput,
) (contract.ClaimReplicasResult, error) {
	var out contract.ClaimReplicasResult
	set, selector, err := a.readSelecting(ctx, in.Set)
	if err != nil {
		return out, err
	}
	for _, o := range slices.Concat(in.Adopt, in.Release) {
		r, err := a.claim(ctx, set, selector, o)
		if err != nil {
			return out, err
		}
		out.Replicas = append(out.Replicas, r)
	}
	return out, nil
}

func (a *Activities) claim(
	ctx context.Context, set *kubevirt.VirtualMachineInstanceReplicaSet, selector labels.Selector, in contract.Object,
) (contract.ReplicaObservation, error) {
	vmi, err := a.KubeVirt.VMIs(in.Namespace).Get(ctx, in.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && string(vmi.UID) != in.UID {
		return contract.ReplicaObservation{UID: in.UID, Gone: true}, nil
	}
	if err != nil {
		return contract.ReplicaObservation{}, failure("reading VirtualMachineInstance "+in.Name, err)
	}
	owners, change := desiredOwners(set, selector, vmi)
	if !change {
		return observe.Replica(vmi, selector), nil
	}
	current, err := a.writeOwners(ctx, vmi, owners, nil)
	if err != nil {
		return contract.ReplicaObservation{}, failure("changing the owner of VirtualMachineInstance "+in.Name, err)
	}
	return observe.Replica(current, selector), nil
}

// desiredOwners returns the owners that an instance should have, and whether that is a change.
func desiredOwners(
	set *kubevirt.VirtualMachineInstanceReplicaSet, selector labels.Selector, vmi *kubevirt.VirtualMachineInstance,
) ([]metav1.OwnerReference, bool) {
	owner, matches := metav1.GetControllerOfNoCopy(vmi), selector.Matches(labels.Set(vmi.Labels))
	switch {
	case vmi.DeletionTimestamp != nil:
		return nil, false
	case owner == nil && matches:
		ref := *metav1.NewControllerRef(set, kubevirt.VirtualMachineInstanceReplicaSetGroupVersionKind)
		return append(withoutOwner(vmi, string(set.UID)), ref), true
	case owner != nil && owner.UID == set.UID && !matches:
		return withoutOwner(vmi, string(set.UID)), true
	default:
		return nil, false
	}
}

// PatchReplicaSet writes a set's status.
// Idempotent: as PatchVM.
func (a *Activities) PatchReplicaSet(
	ctx context.Context, in contract.PatchReplicaSetInput,
) (contract.PatchReplicaSetResult, error) {
	status := merge{
		"replicas": in.Status.Replicas, "readyReplicas": in.Status.ReadyReplicas,
		"labelSelector": in.Status.LabelSelector,
		"conditions":    conditions(in.Status.Conditions),
	}
	body, err := merge{"metadata": locked(in.Set.UID, in.ResourceVersion), "status": status}.encode()
	if err != nil {
		return contract.PatchReplicaSetResult{}, err
	}
	sets := a.KubeVirt.ReplicaSets(in.Set.Namespace)
	current, err := sets.Patch(ctx, in.Set.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	if err == nil {
		a.recordEvents(kindVMIRS, in.Set, in.Events, in.ResourceVersion)
	}
	read := func() (*kubevirt.VirtualMachineInstanceReplicaSet, error) {
		return sets.Get(ctx, in.Set.Name, metav1.GetOptions{})
	}
	return patched("VirtualMachineInstanceReplicaSet", in.Set, current, err, read, observe.ReplicaSet)
}
