package cluster

import (
	"context"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

// ReadMigration reads a migration, its VMI, and that VMI's launcher pods; if the VMI is gone, those that were made for
// the migration. It changes nothing.
func (a *Activities) ReadMigration(
	ctx context.Context, in contract.ReadMigrationInput,
) (contract.ReadMigrationResult, error) {
	var out contract.ReadMigrationResult
	namespace, name := in.Migration.Namespace, in.VMIName
	migration, err := a.readMigration(ctx, in.Migration)
	if err != nil {
		return out, err
	}
	if migration != nil {
		o := observe.Migration(migration)
		out.Migration = &o
		if name == "" {
			name = o.VMIName
		}
	}
	if name == "" {
		return out, nil
	}
	vmi, err := a.KubeVirt.VMIs(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		out.FindPodResult, err = a.listPodsOfMigration(ctx, in.Migration)
		return out, err
	case err != nil:
		return out, failure("reading VirtualMachineInstance "+name, err)
	}
	o := observe.VMI(vmi)
	out.VMI, out.State = &o, observe.MigrationState(vmi.Status.MigrationState)
	if out.State != nil {
		out.Network = a.Settings().Migrations().Network
	}
	out.FindPodResult, err = a.FindLauncherPod(ctx,
		contract.FindPodInput{VMI: contract.Object{Namespace: namespace, Name: name, UID: o.UID}})
	if err == nil && out.Migration != nil && hasBackOff(migration) {
		out.Failures, out.LastFailure, err = a.countFailures(ctx, migration, vmi)
	}
	return out, err
}

// readMigration returns the current migration; nil: there is none of that UID.
func (a *Activities) readMigration(
	ctx context.Context, o contract.Object,
) (*kubevirt.VirtualMachineInstanceMigration, error) {
	m, err := a.KubeVirt.Migrations(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && string(m.UID) != o.UID:
		return nil, nil // there is none
	case err != nil:
		return nil, failure("reading VirtualMachineInstanceMigration "+o.Name, err)
	}
	return m, nil
}

// listPodsOfMigration returns the launcher pods that were made for a migration.
func (a *Activities) listPodsOfMigration(ctx context.Context, m contract.Object) (contract.FindPodResult, error) {
	labels := metav1.FormatLabelSelector(metav1.SetAsLabelSelector(map[string]string{
		contract.LabelLauncher: contract.LabelLauncherValue, contract.LabelMigration: m.UID}))
	list, err := a.Kubernetes.CoreV1().Pods(m.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels})
	if err != nil {
		return contract.FindPodResult{}, failure("listing the pods of VirtualMachineInstanceMigration "+m.Name, err)
	}
	var pods []contract.PodObservation
	for i := range list.Items {
		if o := observe.Pod(&list.Items[i]); o.Migration == m.UID {
			pods = append(pods, o)
		}
	}
	return contract.FoundPods(pods...), nil
}

// hasBackOff reports whether a migration has a back-off that grows with the failures of its kind: evacuations and
// workload updates do.
func hasBackOff(m *kubevirt.VirtualMachineInstanceMigration) bool {
	_, evacuates := m.Annotations[contract.AnnotationEvacuation]
	return evacuates || isWorkloadUpdate(m)
}

// isWorkloadUpdate reports whether a migration is for a newer launcher.
func isWorkloadUpdate(m *kubevirt.VirtualMachineInstanceMigration) bool {
	_, updates := m.Annotations[contract.AnnotationWorkloadUpdate]
	return updates
}

// countFailures counts the evacuations and workload updates of a VMI before a migration that have failed since one
// succeeded, and returns when the last of them did. Those that are being deleted do not count, as with KubeVirt, nor do
// those of an earlier VMI of the name.
func (a *Activities) countFailures(
	ctx context.Context, than *kubevirt.VirtualMachineInstanceMigration, vmi *kubevirt.VirtualMachineInstance,
) (int, time.Time, error) {
	list, err := a.KubeVirt.Migrations(vmi.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.
		FormatLabelSelector(metav1.SetAsLabelSelector(map[string]string{
			kubevirt.MigrationSelectorLabel: observe.NameLabel(vmi.Name)}))})
	if err != nil {
		return 0, time.Time{}, failure("listing the migrations of VirtualMachineInstance "+vmi.Name, err)
	}
	failed, last := failedSince(list.Items, vmi.Name, vmi.CreationTimestamp, than)
	return failed, last, nil
}

// failedSince counts the failures among the migrations of a VMI that was created then, and returns the time of the last
// one. Migrations that are not before than (nil: all count) do not count.
func failedSince(
	all []kubevirt.VirtualMachineInstanceMigration, vmi string, created metav1.Time,
	than *kubevirt.VirtualMachineInstanceMigration,
) (failed int, last time.Time) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(x, y kubevirt.VirtualMachineInstanceMigration) int {
		return y.CreationTimestamp.Compare(x.CreationTimestamp.Time)
	})
	for i := range all {
		m := &all[i]
		switch {
		case m.DeletionTimestamp != nil, !hasBackOff(m), m.Spec.VMIName != vmi,
			m.CreationTimestamp.Before(&created),
			than != nil && (m.UID == than.UID || m.CreationTimestamp.After(than.CreationTimestamp.Time)):
		case m.Status.Phase == kubevirt.MigrationSucceeded:
			return failed, last
		case m.Status.Phase == kubevirt.MigrationFailed:
			failed++
			if at := failedAt(m); at.After(last) {
				last = at
			}
		}
	}
	return failed, last
}

// failedAt returns when a migration failed, by its own status; otherwise the time of its creation, the earliest
// possible.
func failedAt(m *kubevirt.VirtualMachineInstanceMigration) time.Time {
	for _, t := range m.Status.PhaseTransitionTimestamps {
		if t.Phase == kubevirt.MigrationFailed {
			return t.PhaseTransitionTimestamp.UTC()
		}
	}
	return m.CreationTimestamp.UTC()
}

// PatchMigration writes the changed parts of a migration: first the status, which is a subresource, so that the status
// is final before the finalizer is removed. Idempotent: UID and resourceVersion are the lock; a second attempt meets a
// conflict and returns the object as it is.
func (a *Activities) PatchMigration(
	ctx context.Context, in contract.PatchMigrationInput,
) (contract.PatchMigrationResult, error) {
	migrations := a.KubeVirt.Migrations(in.Migration.Namespace)
	version := in.ResourceVersion
	var current *kubevirt.VirtualMachineInstanceMigration
	write := func(metadata, status merge, subresources ...string) error {
		maps.Copy(metadata, locked(in.Migration.UID, version))
		patch := merge{"metadata": metadata}
		if status != nil {
			patch["status"] = status
		}
		body, err := patch.encode()
		if err != nil {
			return err
		}
		current, err = migrations.Patch(ctx, in.Migration.Name, types.MergePatchType, body, metav1.PatchOptions{},
			subresources...)
		if err == nil {
			version = current.ResourceVersion
			a.recordEvents(kindVMIM, in.Migration, in.Events, in.ResourceVersion)
			in.Events = nil
		}
		return err
	}
	var err error
	if in.Status != nil {
		err = write(merge{}, migrationStatus(in.Status), "status")
	}
	read := func() (*kubevirt.VirtualMachineInstanceMigration, error) {
		return migrations.Get(ctx, in.Migration.Name, metav1.GetOptions{})
	}
	if err == nil && (in.Finalizers != nil || in.Stats != nil) {
		metadata := merge{}
		if in.Finalizers != nil && in.Owner.UID != "" {
			metadata.setOwner(current, in.Owner, read)
		}
		metadata.setFinalizers(in.Finalizers)
		if in.Stats != nil {
			metadata["annotations"] = migrationAnnotations(in.Stats)
		}
		err = write(metadata, nil)
	}
	if current == nil && err == nil { // nothing was asked for
		return contract.PatchMigrationResult{}, nil
	}
	return patched("VirtualMachineInstanceMigration", in.Migration, current, err, read, observe.Migration)
}

// setOwner makes the VMI of an ended migration its owner, so that it is deleted with it, unless something else owns it.
// If that cannot be read, it stays as it is: nothing waits for it. Current is the migration as it was written before;
// nil: it was not.
func (m merge) setOwner(
	current *kubevirt.VirtualMachineInstanceMigration, vmi contract.Object,
	read func() (*kubevirt.VirtualMachineInstanceMigration, error),
) {
	var err error
	if current == nil {
		current, err = read()
	}
	if err == nil && len(current.OwnerReferences) == 0 {
		m["ownerReferences"] = []metav1.OwnerReference{ownerOfMigration(vmi.Name, vmi.UID)}
	}
}

func ownerOfMigration(vmi, uid string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: kubevirt.GroupVersion.String(), Kind: kindVMI, Name: vmi,
		UID: types.UID(uid)}
}

// DeleteMigration deletes a migration whose VMI has left nothing. Idempotent: the UID is a precondition.
func (a *Activities) DeleteMigration(
	ctx context.Context, in contract.DeleteMigrationInput,
) (contract.DeleteMigrationResult, error) {
	namespace := in.Migration.Namespace
	vmi, err := a.KubeVirt.VMIs(namespace).Get(ctx, in.VMIName, metav1.GetOptions{})
	switch {
	case err == nil:
		o := observe.VMI(vmi)
		return contract.DeleteMigrationResult{Refused: "the VirtualMachineInstance exists now", VMI: &o}, nil
	case !apierrors.IsNotFound(err):
		return contract.DeleteMigrationResult{}, failure("reading VirtualMachineInstance "+in.VMIName, err)
	}
	err = a.KubeVirt.Migrations(namespace).Delete(ctx, in.Migration.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: uidOf(in.Migration.UID)}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return contract.DeleteMigrationResult{Absent: true}, nil
	}
	if err != nil {
		return contract.DeleteMigrationResult{},
			failure("deleting VirtualMachineInstanceMigration "+in.Migration.Name, err)
	}
	return contract.DeleteMigrationResult{}, nil
}
