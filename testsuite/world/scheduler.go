package world

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtflow/virtflow/testsuite/kube"
)

const schedulerLag = 31 * time.Millisecond

// schedule binds a pod without node to one, or writes that it is unschedulable.
func (w *World) schedule(namespace, name string) {
	pod := kube.Get[corev1.Pod](w.Kube, namespace, name)
	if pod == nil || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || ended(pod) ||
		pod.Spec.SchedulerName == "none" {
		return
	}
	nodes, why := kube.List[corev1.Node](w.Kube, ""), "0/2 nodes are available"
	for _, c := range w.claimsOf(pod) {
		switch {
		case c.DeletionTimestamp != nil:
			nodes, why = nil, "persistentvolumeclaim \""+c.Name+"\" is being deleted"
		case c.Status.Phase != corev1.ClaimBound: // its class waits for this pod, and then for a provisioner
			return
		}
	}
	slices.SortStableFunc(nodes, func(a, b *corev1.Node) int { return score(pod, b) - score(pod, a) })
	for _, node := range nodes {
		if !fits(pod, node) || w.violatesAntiAffinity(pod, node) {
			continue
		}
		_ = w.kubernetes.CoreV1().Pods(namespace).Bind(context.Background(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node.Name},
		}, metav1.CreateOptions{})
		return
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return
		}
	}
	_, _ = kube.Edit(w.Kube, namespace, name, "status", func(p *corev1.Pod) {
		condition(p, corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable)
		p.Status.Conditions[len(p.Status.Conditions)-1].Message = why
	})
}

// claimsOf returns the pod's PVCs that exist.
func (w *World) claimsOf(pod *corev1.Pod) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i := range pod.Spec.Volumes {
		v := pod.Spec.Volumes[i].PersistentVolumeClaim
		if v == nil {
			continue
		}
		if c := kube.Get[corev1.PersistentVolumeClaim](w.Kube, pod.Namespace, v.ClaimName); c != nil {
			out = append(out, c)
		}
	}
	return out
}

func fits(pod *corev1.Pod, node *corev1.Node) bool {
	for k, v := range pod.Spec.NodeSelector {
		if node.Labels[k] != v {
			return false
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil &&
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool { return matches(node, t) }) {
			return false
		}
	}
	return !node.Spec.Unschedulable && isNodeReady(node) &&
		!slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
			return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		})
}

// violatesAntiAffinity reports whether a pod's anti-affinity excludes a node because of a pod that is there.
func (w *World) violatesAntiAffinity(pod *corev1.Pod, node *corev1.Node) bool {
	a := pod.Spec.Affinity
	if a == nil || a.PodAntiAffinity == nil {
		return false
	}
	for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if term.TopologyKey != corev1.LabelHostname {
			panic("the simulated scheduler does not support topology key " + term.TopologyKey)
		}
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err != nil {
			panic(err)
		}
		for _, other := range w.podsOn(node.Name) {
			if other.Namespace == pod.Namespace && !ended(other) && selector.Matches(labels.Set(other.Labels)) {
				return true
			}
		}
	}
	return false
}

// score returns the sum of the weights of a pod's preferences that a node matches.
func score(pod *corev1.Pod, node *corev1.Node) int {
	sum := 0
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		for _, t := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			if matches(node, t.Preference) {
				sum += int(t.Weight)
			}
		}
	}
	return sum
}

// matches reports whether a node matches a term.
func matches(node *corev1.Node, term corev1.NodeSelectorTerm) bool {
	for _, e := range term.MatchExpressions {
		value, there := node.Labels[e.Key]
		var ok bool
		switch e.Operator {
		case corev1.NodeSelectorOpIn:
			ok = there && slices.Contains(e.Values, value)
		case corev1.NodeSelectorOpNotIn:
			ok = !slices.Contains(e.Values, value)
		case corev1.NodeSelectorOpExists:
			ok = there
		case corev1.NodeSelectorOpDoesNotExist:
			ok = !there
		default:
			panic("the simulated scheduler does not support operator " + e.Operator)
		}
		if !ok {
			return false
		}
	}
	return true
}

func isNodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// scheduleAll tries all pending pods again.
func (w *World) scheduleAll() {
	for _, pod := range kube.List[corev1.Pod](w.Kube, "") {
		if pod.Spec.NodeName == "" {
			w.schedule(pod.Namespace, pod.Name)
		}
	}
}
