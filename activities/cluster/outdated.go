package cluster

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

// FindOutdated lists the instances whose launchers have another image than new ones get, and writes their number into
// the status of the KubeVirt object.
func (a *Activities) FindOutdated(
	ctx context.Context, in contract.FindOutdatedInput,
) (contract.FindOutdatedResult, error) {
	out := contract.FindOutdatedResult{Strategy: a.updateStrategy()}
	if err := a.checkImage(in.Image); err != nil {
		return out, err
	}
	selector := contract.LabelOutdatedImage
	if in.All {
		selector = ""
	}
	var outdated []contract.Movable
	tried, written := 0, 0
	err := a.eachInstance(ctx, selector, func(vmi *kubevirt.VirtualMachineInstance) error {
		is := observe.Outdated(vmi, in.Image)
		if is {
			outdated = append(outdated, movable(vmi))
		}
		switch _, marked := vmi.Labels[contract.LabelOutdatedImage]; {
		case is == marked:
			return nil
		case tried == contract.MaxMarked:
			out.Unmarked++
			return nil
		}
		tried++
		refused, err := a.markOutdated(ctx, vmi, is)
		if err == nil && !refused {
			written++
		}
		return err
	})
	if err != nil {
		return out, err
	}
	if written == 0 { // what is refused now is refused at once again
		out.Unmarked = 0
	}
	n := len(outdated)
	out.Instances, out.More, err = a.listMovables(ctx, outdated, in.Priority,
		func(*contract.Movable, *kubevirt.VirtualMachineInstanceMigration) {})
	if err != nil {
		return out, err
	}
	return out, a.countOutdated(ctx, n)
}

// checkImage refuses another image than the one that this process gives to new launchers.
func (a *Activities) checkImage(image string) error {
	if image == a.LauncherImage {
		return nil
	}
	why := fmt.Sprintf("this control worker gives new launchers the image %s, and not %s, as crdwatch says: one of "+
		"them is being updated, or their flags --launcher-image differ", a.LauncherImage, image)
	return temporal.NewApplicationError(why, contract.ErrorOtherLauncher)
}

func (a *Activities) updateStrategy() contract.UpdateStrategy {
	s := a.Settings()
	u := s.WorkloadUpdates
	return contract.UpdateStrategy{Migrate: u.Migrate, Limit: s.Migrations().PerCluster, Evict: u.Evict, Batch: u.Batch,
		IntervalSeconds: int64(u.Interval.Seconds())}
}

// markOutdated corrects the label of an instance. It skips one that is gone, or whose label an admission webhook
// refuses, so that it delays no other.
func (a *Activities) markOutdated(
	ctx context.Context, vmi *kubevirt.VirtualMachineInstance, is bool,
) (refused bool, err error) {
	metadata := locked(string(vmi.UID), "")
	metadata["labels"] = merge{contract.LabelOutdatedImage: nil}
	if is {
		metadata["labels"] = merge{contract.LabelOutdatedImage: ""}
	}
	body, err := merge{"metadata": metadata}.encode()
	if err != nil {
		return false, err
	}
	_, err = a.KubeVirt.VMIs(vmi.Namespace).Patch(ctx, vmi.Name, types.MergePatchType, body, metav1.PatchOptions{})
	switch {
	case err == nil, isOtherObject(err):
		return false, nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
		a.Log.Warn().Err(err).Str("namespace", vmi.Namespace).Str("name", vmi.Name).
			Msg("failed to set the label of an outdated launcher: refused")
		return true, nil
	default:
		return false, failure("patching VirtualMachineInstance "+vmi.Name, err)
	}
}

// countOutdated writes the number into the status of the KubeVirt object, if there is one with another number.
func (a *Activities) countOutdated(ctx context.Context, n int) error {
	if a.Object == nil {
		return nil
	}
	kv := a.Object()
	if kv == nil {
		return nil
	}
	if said := kv.Status.OutdatedVirtualMachineInstanceWorkloads; said != nil && *said == n || said == nil && n == 0 {
		return nil
	}
	body, err := merge{"metadata": locked(string(kv.UID), ""),
		"status": merge{"outdatedVirtualMachineInstanceWorkloads": n}}.encode()
	if err != nil {
		return err
	}
	_, err = a.KubeVirt.KubeVirts(kv.Namespace).
		Patch(ctx, kv.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	if err != nil && !isOtherObject(err) {
		return failure("patching the status of the KubeVirt object "+kv.Name, err)
	}
	return nil
}

// MoveOutdated makes a migration for each of the instances that are still outdated, can move, and have none.
// Idempotent: its name is derived from the instance, the image and the migration before.
func (a *Activities) MoveOutdated(
	ctx context.Context, in contract.UpdateInstancesInput,
) (contract.UpdateInstancesResult, error) {
	if !a.Settings().WorkloadUpdates.Migrate {
		return refuseAll(in, "no guest is to be moved to a new launcher any more"), a.checkImage(in.Image)
	}
	migrations, err := a.listMigrationsOf(ctx, in.Instances)
	if err != nil {
		return contract.UpdateInstancesResult{}, err
	}
	return a.eachOutdated(ctx, in, func(vmi *kubevirt.VirtualMachineInstance, m contract.Movable) (string, error) {
		all := migrations[types.NamespacedName{Namespace: vmi.Namespace, Name: vmi.Name}]
		if !m.Migratable {
			return "it cannot be moved: " + m.Why, nil
		}
		if by := updatedBy(vmi, all, in.Image); by != "" {
			return fmt.Sprintf("%s has moved it, and its launcher is of the image %s: something else has changed that "+
				"of the pod", by, vmi.Status.LauncherContainerImageVersion), nil
		}
		return a.createMigration(ctx, vmi, all, automated{
			prefix: "kubevirt-workload-update-", key: in.Image,
			annotations: map[string]string{contract.AnnotationWorkloadUpdate: "",
				contract.AnnotationLauncherImage: in.Image},
			priority: kubevirt.PrioritySystemCritical, component: componentUpdate,
			of: " for automated workload update",
		})
	})
}

// updatedBy returns the last workload-update migration of an instance, if it has succeeded and was for that image; ""
// otherwise. Another one would bring no other launcher, and so on for ever.
func updatedBy(
	vmi *kubevirt.VirtualMachineInstance, all []kubevirt.VirtualMachineInstanceMigration, image string,
) string {
	var last *kubevirt.VirtualMachineInstanceMigration
	for i := range all {
		m := &all[i]
		if isWorkloadUpdate(m) && !m.CreationTimestamp.Before(&vmi.CreationTimestamp) &&
			(last == nil || last.CreationTimestamp.Before(&m.CreationTimestamp)) {
			last = m
		}
	}
	if last == nil || last.Status.Phase != kubevirt.MigrationSucceeded ||
		last.Annotations[contract.AnnotationLauncherImage] != image {
		return ""
	}
	return last.Name
}

// EvictOutdated evicts the launcher pods of those instances that are still outdated and cannot move. The webhook and
// disruption budgets apply: an instance that should move instead is refused.
func (a *Activities) EvictOutdated(
	ctx context.Context, in contract.UpdateInstancesInput,
) (contract.UpdateInstancesResult, error) {
	updates := a.Settings().WorkloadUpdates
	if !updates.Evict {
		return refuseAll(in, "no guest is to be evicted for a new launcher any more"), a.checkImage(in.Image)
	}
	return a.eachOutdated(ctx, in, func(vmi *kubevirt.VirtualMachineInstance, m contract.Movable) (string, error) {
		if m.Migratable && updates.Migrate {
			return "it can be moved now", nil
		}
		if state := vmi.Status.MigrationState; !m.Running || state != nil && !state.Completed {
			return "its guest does not run, or is being moved", nil
		}
		return a.evictPods(ctx, m.VMI, vmi.Status.NodeName, componentUpdate, func(string) string {
			return "Initiated eviction of VMI as part of automated workload update"
		})
	})
}

// eachOutdated calls a function with each of the instances that is still outdated, and collects the refusals.
func (a *Activities) eachOutdated(
	ctx context.Context, in contract.UpdateInstancesInput,
	do func(*kubevirt.VirtualMachineInstance, contract.Movable) (refused string, err error),
) (out contract.UpdateInstancesResult, err error) {
	if err := a.checkImage(in.Image); err != nil {
		return out, err
	}
	for _, o := range in.Instances {
		vmi, err := a.KubeVirt.VMIs(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return out, failure("reading VirtualMachineInstance "+o.Name, err)
		case string(vmi.UID) != o.UID || vmi.DeletionTimestamp != nil || !observe.Outdated(vmi, in.Image):
			continue
		}
		why, err := do(vmi, movable(vmi))
		switch {
		case err != nil:
			return out, err
		case why != "":
			out.Refused = append(out.Refused, contract.InstanceRefusal{UID: o.UID, Why: why})
		}
	}
	return out, nil
}

func refuseAll(in contract.UpdateInstancesInput, why string) contract.UpdateInstancesResult {
	var out contract.UpdateInstancesResult
	for _, o := range in.Instances {
		out.Refused = append(out.Refused, contract.InstanceRefusal{UID: o.UID, Why: why})
	}
	return out
}
