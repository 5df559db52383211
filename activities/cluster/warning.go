package cluster

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/virtflow/virtflow/contract"
)

// ReadPodWarning reads what the kubelet has warned of last about a pod that has a node and whose containers do not
// start: a Secret or ConfigMap that is absent, a volume that cannot be attached, a network that fails. A pod's status
// says none of it. Events are read only where the pod has not got its volumes and its network, and not while its images
// are pulled: the API server looks through all events of a namespace for them. It changes nothing.
func (a *Activities) ReadPodWarning(
	ctx context.Context, in contract.ReadPodWarningInput,
) (contract.ReadPodWarningResult, error) {
	var out contract.ReadPodWarningResult
	pod, err := a.Kubernetes.CoreV1().Pods(in.Pod.Namespace).Get(ctx, in.Pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return out, nil
	case err != nil:
		return out, failure("reading pod "+in.Pod.Name, err)
	case string(pod.UID) != in.Pod.UID || pod.Spec.NodeName == "" || isPrepared(pod):
		return out, nil
	}
	events, err := a.Kubernetes.CoreV1().Events(in.Pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.uid": in.Pod.UID, "type": corev1.EventTypeWarning}.String(),
	})
	if err != nil {
		return out, failure("listing the events of pod "+in.Pod.Name, err)
	}
	if len(events.Items) > 0 {
		last := slices.MaxFunc(events.Items, laterWarning)
		if last.Reason != reasonFailedScheduling {
			out.Reason, out.Message = contract.Cut(last.Reason, maxReason), contract.Cut(last.Message, maxError)
		}
	}
	return out, nil
}

const (
	// reasonFailedScheduling is the reason of events from before the pod had a node.
	reasonFailedScheduling = "FailedScheduling"
	// timedOut begins the kubelet's messages that sum up others, with less detail.
	timedOut = "Unable to attach or mount volumes"
	// maxReason limits the reason of a condition, in bytes.
	maxReason = 128
)

// isPrepared reports whether a pod has its volumes and its network.
func isPrepared(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
	})
}

// laterWarning orders events by how specific they are, then by time.
func laterWarning(a, b corev1.Event) int {
	if x, y := specificity(a), specificity(b); x != y {
		return x - y
	}
	return latest(a).Compare(latest(b).Time)
}

// specificity returns a higher value for an event with more detail.
func specificity(e corev1.Event) int {
	switch {
	case e.Reason == reasonFailedScheduling:
		return 0
	case strings.HasPrefix(e.Message, timedOut):
		return 1
	default:
		return 2
	}
}

// latest returns when an event was recorded last, by either of its fields for that.
func latest(e corev1.Event) metav1.Time {
	switch {
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	case e.Series != nil:
		return metav1.Time{Time: e.Series.LastObservedTime.Time}
	default:
		return metav1.Time{Time: e.EventTime.Time}
	}
}
