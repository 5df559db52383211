package cluster

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

// PatchVM writes what has changed of a VM: metadata and specification first, then status. (A start request is dropped
// from the status only once the run strategy that answers it is written.) Idempotent: UID and resourceVersion are the
// lock; a second attempt meets a conflict and returns the object as it is. The finalizer is kept while the VM has an
// instance that it does not leave behind.
func (a *Activities) PatchVM(ctx context.Context, in contract.PatchVMInput) (contract.PatchVMResult, error) {
	vms := a.KubeVirt.VMs(in.VM.Namespace)
	answer := func(current *kubevirt.VirtualMachine, err error) (contract.PatchVMResult, error) {
		read := func() (*kubevirt.VirtualMachine, error) { return vms.Get(ctx, in.VM.Name, metav1.GetOptions{}) }
		return patched("VirtualMachine", in.VM, current, err, read, observe.VM)
	}
	if in.Finalizers != nil && !slices.Contains(*in.Finalizers, contract.FinalizerVM) {
		if err := a.instanceIsGone(ctx, in); err != nil {
			return contract.PatchVMResult{}, err
		}
	}
	version := in.ResourceVersion
	var current *kubevirt.VirtualMachine
	if in.Finalizers != nil || in.RunStrategy != "" {
		patch, err := vmObjectPatch(in)
		if err != nil {
			return contract.PatchVMResult{}, err
		}
		current, err = vms.Patch(ctx, in.VM.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil || isRemoved(current) {
			return answer(current, err)
		}
		version = current.ResourceVersion
	}
	if in.Status != nil {
		status, err := a.vmStatus(ctx, in)
		if err != nil {
			return contract.PatchVMResult{}, err
		}
		patch, err := merge{"metadata": locked(in.VM.UID, version), "status": status}.encode()
		if err != nil {
			return contract.PatchVMResult{}, err
		}
		current, err = vms.Patch(ctx, in.VM.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		if err == nil {
			a.recordFailing(in)
		}
		return answer(current, err)
	}
	if current == nil { // nothing was asked for
		return contract.PatchVMResult{}, nil
	}
	return answer(current, nil)
}

// instanceIsGone returns an error if a VM still has an instance that is deleted with it: the caller's state may be out
// of date.
func (a *Activities) instanceIsGone(ctx context.Context, in contract.PatchVMInput) error {
	if slices.Contains(*in.Finalizers, metav1.FinalizerOrphanDependents) {
		return nil
	}
	vmi, err := a.KubeVirt.VMIs(in.VM.Namespace).Get(ctx, in.VM.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return failure("reading VirtualMachineInstance "+in.VM.Name, err)
	}
	if c := metav1.GetControllerOfNoCopy(vmi); c == nil || string(c.UID) != in.VM.UID {
		return nil
	}
	return nonRetryable(contract.ErrorInstanceLeft,
		"VirtualMachine "+in.VM.Name+" keeps its finalizer: its VirtualMachineInstance is still there")
}

// vmStatus is the patch of a VM's status. Of its state change requests only those are written that the entity has
// changed; where it knows but the first of them, the rest is read, and kept. (The lock sees to it that they are still
// the same when they are written.)
func (a *Activities) vmStatus(ctx context.Context, in contract.PatchVMInput) (merge, error) {
	m := vmStatus(in.Status)
	if in.KeepRequests {
		delete(m, "stateChangeRequests")
		return m, nil
	}
	if in.MoreRequests == 0 {
		return m, nil
	}
	vm, err := a.KubeVirt.VMs(in.VM.Namespace).Get(ctx, in.VM.Name, metav1.GetOptions{})
	if err != nil {
		return nil, failure("reading VirtualMachine "+in.VM.Name, err)
	}
	all := make([]any, 0, len(in.Status.StateChangeRequests)+in.MoreRequests)
	for _, r := range in.Status.StateChangeRequests {
		all = append(all, r)
	}
	there := vm.Status.StateChangeRequests
	for _, r := range there[max(0, len(there)-in.MoreRequests):] {
		all = append(all, r)
	}
	m["stateChangeRequests"] = all
	return m, nil
}

func vmObjectPatch(in contract.PatchVMInput) ([]byte, error) {
	metadata := locked(in.VM.UID, in.ResourceVersion)
	metadata.setFinalizers(in.Finalizers)
	if in.RunStrategy != "" && in.Actor != "" {
		metadata["annotations"] = merge{contract.AnnotationRequestedBy: in.Actor}
	}
	patch := merge{"metadata": metadata}
	switch {
	case in.RunStrategy == "":
	case !in.LegacyRunning:
		patch["spec"] = merge{"runStrategy": in.RunStrategy}
	case in.RunStrategy == string(kubevirt.RunStrategyAlways):
		patch["spec"] = merge{"running": true}
	case in.RunStrategy == string(kubevirt.RunStrategyHalted):
		patch["spec"] = merge{"running": false}
	default:
		return nil, nonRetryable(contract.ErrorInvalid,
			fmt.Sprintf("spec.running cannot say run strategy %s", in.RunStrategy))
	}
	return patch.encode()
}

// PatchVMI writes what has changed of an instance in one request: its status lies on the main resource. Its finalizers
// stay while any of its pods has not ended. A second request marks a pod whose guest is being evicted, by what the
// instance says then. Idempotent: as PatchVM.
func (a *Activities) PatchVMI(ctx context.Context, in contract.PatchVMIInput) (contract.PatchVMIResult, error) {
	if in.Finalizers != nil {
		if pod, err := a.findUnended(ctx, in.VMI, in.Known); err != nil || pod != nil {
			return contract.PatchVMIResult{Refused: "its pod has not ended", Pod: pod}, err
		}
	}
	metadata := locked(in.VMI.UID, in.ResourceVersion)
	metadata.setFinalizers(in.Finalizers)
	labels := merge{}
	if in.NodeLabel != nil {
		set(labels, contract.LabelNodeName, *in.NodeLabel)
	}
	if in.TargetLabel != nil {
		set(labels, contract.LabelMigrationTarget, *in.TargetLabel)
	}
	if in.Status != nil {
		labels[contract.LabelOutdatedImage] = a.outdatedLabel(in.Status)
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if in.Evacuated {
		metadata["annotations"] = merge{kubevirt.EvictionSourceAnnotation: nil}
	}
	patch := merge{"metadata": metadata}
	if in.Status != nil {
		status := vmiStatus(in.Status, in.LeftPods)
		if in.Evacuated {
			status["evacuationNodeName"] = nil
		}
		patch["status"] = status
	}
	body, err := patch.encode()
	if err != nil {
		return contract.PatchVMIResult{}, err
	}
	vmis := a.KubeVirt.VMIs(in.VMI.Namespace)
	current, err := vmis.Patch(ctx, in.VMI.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err == nil {
		a.recordEvents(kindVMI, in.VMI, in.Events, in.ResourceVersion)
	}
	written := err == nil
	read := func() (*kubevirt.VirtualMachineInstance, error) {
		return vmis.Get(ctx, in.VMI.Name, metav1.GetOptions{})
	}
	var out contract.PatchVMIResult
	if out.Patched, err = patched("VirtualMachineInstance", in.VMI, current, err, read, observe.VMI); written {
		out.Migratable = a.checkMigratable(ctx, current)
	}
	if err == nil && in.Eviction != nil && out.Current != nil {
		err = a.markEviction(ctx, *in.Eviction, out.Current.EvacuationNode == in.Eviction.Node)
	}
	return out, err
}

// markEviction writes the annotation by which the descheduler knows whether a pod's guest is being evicted. Idempotent:
// it is one annotation. A pod that is gone needs none. A refusal is logged only: nothing else may wait for it.
func (a *Activities) markEviction(ctx context.Context, mark contract.EvictionMark, evicted bool) error {
	var value any
	if evicted {
		value = contract.EvictedBy
	}
	metadata := locked(mark.Pod.UID, "")
	metadata["annotations"] = merge{contract.AnnotationEvictionInProgress: value}
	body, err := merge{"metadata": metadata}.encode()
	if err != nil {
		return err
	}
	_, err = a.Kubernetes.CoreV1().Pods(mark.Pod.Namespace).
		Patch(ctx, mark.Pod.Name, types.MergePatchType, body, metav1.PatchOptions{})
	switch {
	case err == nil || isOtherObject(err):
		return nil
	case isRefused(err), apierrors.IsInvalid(err):
		a.Log.Warn().Err(err).Str("pod", mark.Pod.Name).Msg("failed to mark a pod as being evicted")
		return nil
	default:
		return failure("marking pod "+mark.Pod.Name+" as being evicted", err)
	}
}

// outdatedLabel returns the value of the label for outdated launchers: "" sets it, nil removes it.
func (a *Activities) outdatedLabel(s *contract.VMIStatus) any {
	final := s.Phase == string(kubevirt.Succeeded) || s.Phase == string(kubevirt.Failed)
	if final || s.LauncherImage == "" || s.LauncherImage == a.LauncherImage {
		return nil
	}
	return ""
}

// PatchNode sets labels of a node. Idempotent: the input has the desired labels, and the node's UID.
func (a *Activities) PatchNode(ctx context.Context, in contract.PatchNodeInput) error {
	metadata := locked(in.UID, "")
	labels, err := a.nodeLabels(ctx, in)
	if isOtherObject(err) {
		return goneError("node %s is gone", in.Name)
	}
	if err != nil {
		return failure("reading node "+in.Name, err)
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	body, err := merge{"metadata": metadata}.encode()
	if err != nil {
		return err
	}
	node, err := a.Kubernetes.CoreV1().Nodes().Patch(ctx, in.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if isOtherObject(err) {
		return goneError("node %s is gone, or another one by now", in.Name)
	}
	if err != nil {
		return failure("patching node "+in.Name, err)
	}
	a.recordEvents(kindNode, contract.Object{Name: in.Name, UID: in.UID}, in.Events, node.ResourceVersion)
	return nil
}

// patched returns the result of a patch that the API server has answered with current, or refused with err: after a
// conflict, the current object.
func patched[O metav1.Object, T any](
	kind string, o contract.Object, current O, err error, read func() (O, error), observe func(O) T,
) (contract.Patched[T], error) {
	switch {
	case err == nil && isRemoved(current):
		return contract.Patched[T]{Written: true, Gone: true}, nil
	case err == nil:
		now := observe(current)
		return contract.Patched[T]{Written: true, Current: &now}, nil
	case isOtherObject(err):
		return contract.Patched[T]{Gone: true}, nil
	case !apierrors.IsConflict(err):
		return contract.Patched[T]{}, failure("patching "+kind+" "+o.Name, err)
	}
	current, err = read()
	switch {
	case apierrors.IsNotFound(err), err == nil && string(current.GetUID()) != o.UID:
		return contract.Patched[T]{Gone: true}, nil
	case err != nil:
		return contract.Patched[T]{}, failure("reading "+kind+" "+o.Name, err)
	}
	now := observe(current)
	return contract.Patched[T]{Conflict: true, Current: &now}, nil
}

// recordEvents records the events that go with a patch. The version that the patch was decided from names the occasion.
func (a *Activities) recordEvents(kind string, o contract.Object, events []contract.Event, version string) {
	for i, e := range events {
		a.recordEvent(kind, o, e, fmt.Sprintf("%s/%d", version, i))
	}
}

// isRemoved reports whether the API server has just removed an object: it was being deleted, and its last finalizer
// went.
func isRemoved(o metav1.Object) bool {
	return o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0
}

func quantity(bytes int64) *resource.Quantity { return resource.NewQuantity(bytes, resource.BinarySI) }
