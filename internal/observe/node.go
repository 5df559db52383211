package observe

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// AnnotationCapabilities replaces a node's capability labels in the cached copy of it: there are hundreds of labels.
const AnnotationCapabilities = "virtflow.io/capabilities-digest"

// Node observes a node; workerReady means that a node worker pod on it is Ready, and drainTaint is the key of the taint
// of a node that all its guests are to leave.
func Node(node *corev1.Node, workerReady bool, drainTaint string) contract.NodeObservation {
	o := contract.NodeObservation{
		UID:             string(node.UID),
		ResourceVersion: node.ResourceVersion,
		Unschedulable:   node.Spec.Unschedulable,
		WorkerReady:     workerReady,
		OutOfService:    outOfService(node),
		Drain:           hasTaint(node, drainTaint, corev1.TaintEffectNoSchedule),
		Labels:          OwnedLabels(node.Labels),
		Capabilities:    node.Annotations[AnnotationCapabilities],
	}
	if drainTaint != contract.TaintDrain {
		o.DrainTaint = drainTaint
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			o.Ready = c.Status == corev1.ConditionTrue
		}
	}
	return o
}

// NodeState observes what a VMI needs to know of its pod's node.
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

// GoneNodeState observes that a pod's node no longer exists; uid is "" if the node was found missing.
func GoneNodeState(name, uid, podUID string) contract.NodeState {
	return contract.NodeState{PodUID: podUID, Name: name, UID: uid, Gone: true}
}

// SameNodeState reports whether two observations of a pod's node are equal for its VMI.
func SameNodeState(a, b contract.NodeState) bool {
	a.ResourceVersion, b.ResourceVersion = "", ""
	if a.Ready && b.Ready {
		a.Since, b.Since = time.Time{}, time.Time{}
	}
	return a == b
}

// outOfService reports whether an administrator has marked the node as out of service: nothing that ran there runs any
// more. Kubernetes gives the taint this meaning only with that effect.
func outOfService(node *corev1.Node) bool {
	return hasTaint(node, corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute)
}

// hasTaint reports whether a node has a taint of that key and effect.
func hasTaint(node *corev1.Node, key string, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == key && t.Effect == effect
	})
}

// GoneNode observes that a node of that UID no longer exists.
func GoneNode(uid string) contract.NodeObservation {
	return contract.NodeObservation{UID: uid, Gone: true}
}

// WorkerReady reports whether a node worker's pod can be given work.
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

// OwnedLabels returns the node labels that virtflow writes: whether VMs may be placed there, and the capabilities of
// its CPUs. The lists of CPU models and features are left out: they are long, and written as a whole.
func OwnedLabels(labels map[string]string) map[string]string {
	var out map[string]string
	if v, ok := labels[contract.LabelSchedulable]; ok { // never left out: decisions depend on it
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
