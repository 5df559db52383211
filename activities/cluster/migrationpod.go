package cluster

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/render"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

// CreateTargetPod makes the launcher pod to which a migration's guest is to move. It refuses unless the current
// migration and VMI require it; a migration whose target has run gets no other. Idempotent: the pod's name derives from
// the UIDs of both; an existing one is returned.
func (a *Activities) CreateTargetPod(
	ctx context.Context, in contract.CreateTargetPodInput,
) (contract.CreateTargetPodResult, error) {
	name := render.TargetName(in.VMI.Name, in.VMI.UID, in.Migration.UID)
	migration, vmi, source, why, err := a.checkTargetPreconditions(ctx, in)
	if err != nil || why != "" {
		return contract.CreateTargetPodResult{Refused: why}, err
	}
	if hasTargetRun(migration) {
		found, err := a.existingTarget(ctx, in, name)
		if found.Pod.UID == "" && err == nil {
			found.Refused = "the migration is " + string(migration.Status.Phase) + ", and its target's pod is gone"
		}
		return found, err
	}
	options := render.TargetOptions{
		Options: render.Options{Image: a.LauncherImage, PullPolicy: a.PullPolicy, Settings: a.Settings()},
		Source:  source, PreferNode: in.PreferNode,
	}
	if render.NeedsNode(vmi, options) {
		if options.Node, err = a.nodeOf(ctx, source); err != nil {
			return contract.CreateTargetPodResult{}, err
		}
	}
	_, awaits, err := a.readClaims(ctx, vmi)
	if err != nil {
		return contract.CreateTargetPodResult{}, a.recordTargetRefusal(in.Migration, err)
	}
	if awaits != nil && !awaits.Populating() { // the guest has it already
		return contract.CreateTargetPodResult{Refused: awaits.Message}, nil
	}
	if options.NetworkResources, err = a.networkResources(ctx, vmi); err != nil {
		return contract.CreateTargetPodResult{}, a.recordTargetRefusal(in.Migration, err)
	}
	if options.Limited.CPU, err = a.hasAutoCPULimit(ctx, vmi, options.Settings); err != nil {
		return contract.CreateTargetPodResult{}, a.recordTargetRefusal(in.Migration, err)
	}
	pod, err := render.Target(vmi, migration, options)
	if err != nil {
		return contract.CreateTargetPodResult{},
			a.recordTargetRefusal(in.Migration, nonRetryable(contract.ErrorInvalid, err.Error()))
	}
	made, err := a.createPod(ctx, pod, func(l render.Limited) (*corev1.Pod, error) {
		options.Limited = options.Limited.Or(l)
		return render.Target(vmi, migration, options)
	})
	switch {
	case apierrors.IsAlreadyExists(err):
		return a.existingTarget(ctx, in, name)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), exceededQuota):
		err = a.recordTargetRefusal(in.Migration, failure("creating pod "+name, err))
		return contract.CreateTargetPodResult{Quota: message(err)}, nil
	case err != nil:
		return contract.CreateTargetPodResult{}, a.recordTargetRefusal(in.Migration,
			creationFailure("creating pod "+name, err))
	}
	a.recordEvent(kindVMIM, in.Migration, normalEvent("SuccessfulCreate", "Created migration target pod "+made.Name),
		string(made.UID))
	return contract.CreateTargetPodResult{Pod: observe.Pod(made)}, nil
}

// exceededQuota is part of the API server's error if a resource quota is used up.
const exceededQuota = "exceeded quota"

// checkTargetPreconditions reads what a target's pod depends on, and returns why none is required ("": one is).
func (a *Activities) checkTargetPreconditions(ctx context.Context, in contract.CreateTargetPodInput) (
	migration *kubevirt.VirtualMachineInstanceMigration, vmi *kubevirt.VirtualMachineInstance, source *corev1.Pod,
	why string, err error,
) {
	if migration, err = a.readMigration(ctx, in.Migration); err != nil {
		return nil, nil, nil, "", err
	}
	switch {
	case migration == nil:
		return nil, nil, nil, "the migration does not exist any more", nil
	case migration.DeletionTimestamp != nil:
		return nil, nil, nil, "the migration is being deleted", nil
	case migration.IsFinal():
		return nil, nil, nil, "the migration has ended", nil
	}
	if vmi, err = a.readVMI(ctx, in.VMI); err != nil {
		return nil, nil, nil, "", err
	}
	switch {
	case vmi == nil:
		return nil, nil, nil, "the VirtualMachineInstance does not exist any more", nil
	case vmi.DeletionTimestamp != nil:
		return nil, nil, nil, "the VirtualMachineInstance is being deleted", nil
	case vmi.IsFinal():
		return nil, nil, nil, "the VirtualMachineInstance has ended", nil
	}
	source, err = a.Kubernetes.CoreV1().Pods(in.Source.Namespace).Get(ctx, in.Source.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && string(source.UID) != in.Source.UID {
		return nil, nil, nil, "the pod that the guest was in does not exist any more", nil
	}
	if err != nil {
		return nil, nil, nil, "", failure("reading pod "+in.Source.Name, err)
	}
	wants := migration.Annotations[contract.AnnotationLauncherImage]
	switch o := observe.Pod(source); {
	case o.VMIUID != in.VMI.UID:
		why = "pod " + in.Source.Name + " does not belong to the VirtualMachineInstance"
	case o.Ended():
		why = "the pod that the guest was in has ended"
	case wants != "" && wants != a.LauncherImage:
		return nil, nil, nil, "", a.recordTargetRefusal(in.Migration, nonRetryable(contract.ErrorOtherLauncher,
			"the migration is to bring a launcher of the image "+wants+", and this control worker gives new ones "+
				a.LauncherImage+": one of two releases"))
	case isWorkloadUpdate(migration) && o.LauncherImage == a.LauncherImage:
		why = "the guest's launcher is of the image already that this control worker gives new ones"
	}
	return migration, vmi, source, why, nil
}

// hasTargetRun reports whether the target pod of a migration has run.
func hasTargetRun(m *kubevirt.VirtualMachineInstanceMigration) bool {
	switch m.Status.Phase {
	case kubevirt.MigrationScheduled, kubevirt.MigrationPreparingTarget, kubevirt.MigrationTargetReady,
		kubevirt.MigrationRunning:
		return true
	default:
		return false
	}
}

// nodeOf returns the node of a pod; nil: it does not exist.
func (a *Activities) nodeOf(ctx context.Context, pod *corev1.Pod) (*corev1.Node, error) {
	node, err := a.Kubernetes.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // it does not exist
	}
	if err != nil {
		return nil, failure("reading node "+pod.Spec.NodeName, err)
	}
	return node, nil
}

// existingTarget returns the answer about the pod of a target's name; without one it is empty.
func (a *Activities) existingTarget(
	ctx context.Context, in contract.CreateTargetPodInput, name string,
) (contract.CreateTargetPodResult, error) {
	found, err := a.findPod(ctx, in.VMI, name)
	switch {
	case err != nil || found == nil:
		return contract.CreateTargetPodResult{}, err
	case found.VMIUID != in.VMI.UID || found.Migration != in.Migration.UID:
		refused := nonRetryable(contract.ErrorConflict,
			fmt.Sprintf("pod %s exists (UID %s) and does not belong to this migration: delete it", name, found.UID))
		return contract.CreateTargetPodResult{}, a.recordTargetRefusal(in.Migration, refused)
	}
	return contract.CreateTargetPodResult{Pod: *found}, nil
}

func (a *Activities) recordTargetRefusal(migration contract.Object, err error) error {
	message := message(err)
	a.recordEvent(kindVMIM, migration,
		warningEvent(contract.ReasonFailedCreate, "Error creating pod: "+message), message)
	return err
}

// DeleteMigrationPod deletes a launcher pod that a migration has left over, with its own grace period; its finalizer
// keeps the record. It refuses while the VMI exists and has not ended, and its status names this pod as the guest's,
// unless the pod has ended. If the status names no pod, it only deletes one that was made for this migration.
// Idempotent: the UID is a precondition.
//
// The finalizer of a pod whose end was seen is removed first, in the version in which the pod was seen: that proves
// that it has ended, and its deletion is the last observation of the pod. If the pod has changed since, the finalizer
// stays.
func (a *Activities) DeleteMigrationPod(
	ctx context.Context, in contract.DeleteMigrationPodInput,
) (contract.DeleteMigrationPodResult, error) {
	var out contract.DeleteMigrationPodResult
	if in.Orphaned {
		m, err := a.readMigration(ctx, in.Migration)
		if err != nil {
			return out, err
		}
		if m != nil && !observe.ClosedMigration(m) {
			out.Refused = "migration " + m.Name + " is there, and sees to it"
			return out, nil
		}
	}
	pods := a.Kubernetes.CoreV1().Pods(in.Pod.Namespace)
	found, err := a.removePodFinalizer(ctx, in.Pod, in.ResourceVersion)
	out.Released = err == nil
	if apierrors.IsConflict(err) {
		found, err = pods.Get(ctx, in.Pod.Name, metav1.GetOptions{})
	}
	switch {
	case isOtherObject(err), err == nil && string(found.UID) != in.Pod.UID:
		out.Absent = true
		return out, nil
	case err != nil:
		return out, failure("looking at pod "+in.Pod.Name, err)
	}
	pod := observe.Pod(found)
	if !pod.Ended() {
		vmi, err := a.readVMI(ctx, in.VMI)
		if err != nil {
			return out, err
		}
		if vmi != nil {
			o := observe.VMI(vmi)
			if why := whyMayHaveGuest(o, pod, in.Migration.UID); why != "" {
				out.Refused, out.VMI = why, &o
				return out, nil
			}
		}
	}
	err = pods.Delete(ctx, in.Pod.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: uidOf(in.Pod.UID)}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		out.Absent = true
		return out, nil
	}
	role := "source"
	if pod.Migration == in.Migration.UID {
		role = "target"
	}
	if err != nil {
		err = failure("deleting pod "+in.Pod.Name, err)
		a.recordEvent(kindVMIM, in.Migration,
			warningEvent(contract.ReasonFailedDelete, "Error deleting migration "+role+" pod: "+message(err)),
			in.Pod.UID)
		return contract.DeleteMigrationPodResult{}, err
	}
	a.recordEvent(kindVMIM, in.Migration,
		normalEvent("SuccessfulDelete", "Deleted migration "+role+" pod "+in.Pod.Name), in.Pod.UID)
	return out, nil
}

// whyMayHaveGuest returns why a pod that has not ended may have the guest of a VMI ("": it has not).
func whyMayHaveGuest(vmi contract.VMIObservation, pod contract.PodObservation, migration string) string {
	switch {
	case vmi.Ended():
		return ""
	case vmi.NodeName == "" && pod.Migration != migration:
		return "the VirtualMachineInstance does not say where its guest is now"
	case vmi.NodeName != "" && vmi.NodeName == pod.NodeName:
		return "the guest is on node " + vmi.NodeName + " now, where the pod is"
	default:
		return ""
	}
}
