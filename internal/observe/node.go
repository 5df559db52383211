package observe

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// AnnotationCapabilities stands for a node's capability labels in the copy that is kept of it: the labels themselves
// are hundreds.
const AnnotationCapabilities = "virtflow.io/capabilities-digest"

// Node observes a node; workerReady says whether a node worker pod on it is Ready.
func Node(node *corev1.Node, workerReady bool) contract.NodeObservation {
	o := contract.NodeObservation{
		UID:             string(node.UID),
		ResourceVersion: node.ResourceVersion,
		Unschedulable:   node.Spec.Unschedulable,
		WorkerReady:     workerReady,
		OutOfService:    outOfService(node),
		Drain:           tainted(node, contract.TaintDrain, corev1.TaintEffectNoSchedule),
		Labels:          OwnedLabels(node.Labels),
		Capabilities:    node.Annotations[AnnotationCapabilities],
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			o.Ready = c.Status == corev1.ConditionTrue
		}
	}
	return o
}

// NodeState observes what a VMI is to know of the node that its pod is on.
func NodeState(node *corev1.Node, podUID string) contract.NodeState {
	s := contract.NodeState{
		PodUID: podUID, Name: node.Name, UID: string(node.UID), ResourceVersion: node.ResourceVersion,
		OutOfService: outOfService(node),
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			s.Ready = c.Status == corev1.ConditionTrue
			s.Since = c.LastTransitionTime.UTC()
		}
	}
	return s
}

// GoneNodeState observes that the node of a pod exists no more; uid is "" where it was found missing.
func GoneNodeState(name, uid, podUID string) contract.NodeState {
	return contract.NodeState{PodUID: podUID, Name: name, UID: uid, Gone: true}
}

// SameNodeState says that two observations of a pod's node say the same to its VMI.
func SameNodeState(a, b contract.NodeState) bool {
	a.ResourceVersion, b.ResourceVersion = "", ""
	if a.Ready && b.Ready {
		a.Since, b.Since = time.Time{}, time.Time{}
	}
	return a == b
}

// outOfService says that an administrator calls the node off: whatever ran there does so no more. Kubernetes means it
// only with that effect.
func outOfService(node *corev1.Node) bool {
	return tainted(node, corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute)
}

func tainted(node *corev1.Node, key string, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == key && t.Effect == effect
	})
}

// GoneNode observes that a node of that UID exists no more.
func GoneNode(uid string) contract.NodeObservation {
	return contract.NodeObservation{UID: uid, Gone: true}
}

// WorkerReady says whether a node worker's pod can be given work.
func WorkerReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// OwnedLabels are the labels of a node that virtflow writes: which VMs may be placed there, and what its CPUs can do.
// The lists of CPU models and features are left out: they are long, and written as a whole.
func OwnedLabels(labels map[string]string) map[string]string {
	var out map[string]string
	if v, ok := labels[contract.LabelSchedulable]; ok { // whatever else there is: decisions rest on it
		out = map[string]string{contract.LabelSchedulable: v}
	}
	for _, k := range sortedKeys(labels) {
		if !ownedLabel(k) || len(out) == maxLabels {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[k] = labels[k]
	}
	return out
}

func ownedLabel(key string) bool {
	for _, prefix := range []string{"kubevirt.io/", "virtflow.io/", "cpu-vendor.node.kubevirt.io/",
		"scheduling.node.kubevirt.io/"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
