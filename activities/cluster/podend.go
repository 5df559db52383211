package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

// DeleteLauncherPod deletes a pod; the kubelet gives the guest its grace period, and the pod's finalizer keeps the
// record. It is done only if the instance is gone, is being deleted or has ended now; or, by force, if its node is off
// now. Idempotent: the UID is a precondition.
func (a *Activities) DeleteLauncherPod(
	ctx context.Context, in contract.DeletePodInput,
) (contract.DeletePodResult, error) {
	var refused contract.DeletePodResult
	var err error
	if in.Fence.Node != "" {
		refused.Refused, refused.Node, err = a.whyMayRun(ctx, in.Fence, in.Pod.UID)
	} else {
		refused.Refused, refused.VMI, err = a.whyPodRetained(ctx, in.VMI)
	}
	if err != nil || refused.Refused != "" {
		return refused, err
	}
	err = a.Kubernetes.CoreV1().Pods(in.Pod.Namespace).Delete(ctx, in.Pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: in.Grace,
		Preconditions:      &metav1.Preconditions{UID: uidOf(in.Pod.UID)},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return contract.DeletePodResult{Absent: true}, nil
	}
	if err != nil {
		err = failure("deleting pod "+in.Pod.Name, err)
		a.recordEvent(kindVMI, in.VMI, warningEvent(contract.ReasonFailedDelete, "Error deleting pod: "+message(err)),
			in.Pod.UID)
		return contract.DeletePodResult{}, err
	}
	a.recordEvent(kindVMI, in.VMI,
		normalEvent("SuccessfulDelete", "Deleted virtual machine pod "+in.Pod.Name), in.Pod.UID)
	a.recordEvents(kindVMI, in.VMI, in.Events, in.Pod.UID)
	return contract.DeletePodResult{}, nil
}

// whyPodRetained returns why the pod of an instance must not be deleted, and the current instance then; "": it may be
// deleted.
func (a *Activities) whyPodRetained(
	ctx context.Context, in contract.Object,
) (string, *contract.VMIObservation, error) {
	vmi, err := a.readVMI(ctx, in)
	if err != nil || vmi == nil {
		return "", nil, err
	}
	if o := observe.VMI(vmi); o.DeletionTimestamp == nil && !o.Ended() {
		return "the VirtualMachineInstance is not being deleted now, and has not ended", &o, nil
	}
	return "", nil, nil
}

// readVMI returns the current instance; nil: there is none of that UID.
func (a *Activities) readVMI(ctx context.Context, o contract.Object) (*kubevirt.VirtualMachineInstance, error) {
	vmi, err := a.KubeVirt.VMIs(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && string(vmi.UID) != o.UID:
		return nil, nil // there is none
	case err != nil:
		return nil, failure("reading VirtualMachineInstance "+o.Name, err)
	}
	return vmi, nil
}

// whyMayRun returns why the guest in a pod may still run although its node is lost ("": it cannot), and the node's
// state.
func (a *Activities) whyMayRun(
	ctx context.Context, fence contract.Fence, pod string,
) (string, *contract.NodeState, error) {
	node, err := a.Kubernetes.CoreV1().Nodes().Get(ctx, fence.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, failure("reading node "+fence.Node, err)
	}
	state := observe.NodeState(node, pod)
	why := ""
	switch {
	case state.Ready:
		why = "is ready now"
	case fence.By == contract.FencedByTaint && !state.OutOfService:
		why = "is not called out of service any more"
	case fence.By == contract.FencedByEnd:
		why = "exists again"
	default:
		return "", nil, nil
	}
	return "node " + fence.Node + " " + why + ": its guests may run", &state, nil
}

// RemovePodFinalizer takes virtflow's finalizer off a pod, in the version in which its end was seen. Where it has
// changed since, it is looked at again: it must have ended by its kubelet's word. Of a pod that is on a fenced node,
// that node must be off now. Idempotent: only that one element is removed, whatever else is in the list by then; a pod
// that is gone is done.
func (a *Activities) RemovePodFinalizer(
	ctx context.Context, in contract.RemovePodFinalizerInput,
) (contract.RemovePodFinalizerResult, error) {
	if in.Fence.Node != "" {
		why, node, err := a.whyMayRun(ctx, in.Fence, in.Pod.UID)
		if err != nil || why != "" {
			return contract.RemovePodFinalizerResult{Refused: why, Node: node}, err
		}
	}
	pods := a.Kubernetes.CoreV1().Pods(in.Pod.Namespace)
	for version := in.ResourceVersion; ; {
		removed, err := a.removePodFinalizer(ctx, in.Pod, version)
		switch {
		case err == nil:
			// One that its kubelet has deleted for good goes with its last finalizer.
			grace := removed.DeletionGracePeriodSeconds
			return contract.RemovePodFinalizerResult{Absent: isRemoved(removed) && grace != nil && *grace == 0}, nil
		case isOtherObject(err):
			return contract.RemovePodFinalizerResult{Absent: true}, nil
		case !apierrors.IsConflict(err):
			return contract.RemovePodFinalizerResult{}, failure("removing the finalizer of pod "+in.Pod.Name, err)
		}
		pod, err := pods.Get(ctx, in.Pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && string(pod.UID) != in.Pod.UID {
			return contract.RemovePodFinalizerResult{Absent: true}, nil
		}
		if err != nil {
			return contract.RemovePodFinalizerResult{}, failure("reading pod "+in.Pod.Name, err)
		}
		now := observe.Pod(pod)
		if !now.Ended() && in.Fence.Node == "" {
			return contract.RemovePodFinalizerResult{Refused: "the pod has not ended by its kubelet's word", Pod: &now},
				nil
		}
		if version == now.ResourceVersion { // a conflict without a change
			return contract.RemovePodFinalizerResult{},
				failure("removing the finalizer of pod "+in.Pod.Name, errUnchanged)
		}
		version = now.ResourceVersion
	}
}

// removePodFinalizer removes the finalizer if the pod has that version, and returns the patched pod. Errors are the API
// server's; without a version the error is a conflict.
func (a *Activities) removePodFinalizer(
	ctx context.Context, pod contract.Object, version string,
) (*corev1.Pod, error) {
	if version == "" {
		return nil, apierrors.NewConflict(corev1.Resource("pods"), pod.Name, errUnsettled)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": version,
		"$deleteFromPrimitiveList/finalizers": []string{contract.FinalizerPod},
	}})
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return a.Kubernetes.CoreV1().Pods(pod.Namespace).
		Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}

// findUnended returns a pod of an instance that has not ended, or nil.
func (a *Activities) findUnended(
	ctx context.Context, vmi contract.Object, known []contract.Object,
) (*contract.PodObservation, error) {
	pods, err := a.listLaunchers(ctx, vmi, known)
	for i := range pods {
		if !pods[i].Ended() {
			return &pods[i], nil
		}
	}
	return nil, err
}
