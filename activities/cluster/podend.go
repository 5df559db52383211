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

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
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
		refused.Refused, refused.Node, err = a.mayRun(ctx, in.Fence, in.Pod.UID)
	} else {
		refused.Refused, refused.VMI, err = a.instanceIsWanted(ctx, in.VMI)
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
		a.recordEvent(kindVMI, in.VMI, warning(contract.ReasonFailedDelete, "Error deleting pod: "+message(err)),
			in.Pod.UID)
		return contract.DeletePodResult{}, err
	}
	a.recordEvent(kindVMI, in.VMI, normal("SuccessfulDelete", "Deleted virtual machine pod "+in.Pod.Name), in.Pod.UID)
	a.recordEvents(kindVMI, in.VMI, in.Events, in.Pod.UID)
	return contract.DeletePodResult{}, nil
}

// instanceIsWanted says why the pod of an instance is not to be deleted ("": it may be), and of which instance as it is
// now.
func (a *Activities) instanceIsWanted(
	ctx context.Context, in contract.Object,
) (string, *contract.VMIObservation, error) {
	vmi, err := a.vmi(ctx, in)
	if err != nil || vmi == nil {
		return "", nil, err
	}
	if o := observe.VMI(vmi); o.DeletionTimestamp == nil && !o.Ended() {
		return "the VirtualMachineInstance is not being deleted now, and has not ended", &o, nil
	}
	return "", nil, nil
}

// vmi is an instance as it is now; nil: there is none of that UID.
func (a *Activities) vmi(ctx context.Context, o contract.Object) (*kubevirt.VirtualMachineInstance, error) {
	vmi, err := a.KubeVirt.VMIs(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && string(vmi.UID) != o.UID:
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, failure("reading VirtualMachineInstance "+o.Name, err)
	}
	return vmi, nil
}

// mayRun says why the guest in a pod cannot be taken for off with its node ("": it can), and how the node is.
func (a *Activities) mayRun(
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
		why, node, err := a.mayRun(ctx, in.Fence, in.Pod.UID)
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
			return contract.RemovePodFinalizerResult{Absent: ended(removed) && grace != nil && *grace == 0}, nil
		case otherObject(err):
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
		if version == now.ResourceVersion { // it was said to have changed, and has not
			return contract.RemovePodFinalizerResult{},
				failure("removing the finalizer of pod "+in.Pod.Name, errUnchanged)
		}
		version = now.ResourceVersion
	}
}

// removePodFinalizer does it in that version of the pod, and returns the pod as it is then. Errors are the API
// server's; no version is like one that has changed.
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

// unended is a pod of an instance that has not ended now, or nil.
func (a *Activities) unended(
	ctx context.Context, vmi contract.Object, known []contract.Object,
) (*contract.PodObservation, error) {
	pods, err := a.launchers(ctx, vmi, known)
	for i := range pods {
		if !pods[i].Ended() {
			return &pods[i], nil
		}
	}
	return nil, err
}
