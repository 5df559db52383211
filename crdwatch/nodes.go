package crdwatch

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// stateOfNode tells a VMI how the node of its pod is; the caller holds the lock. A VMI takes a node for ready of which it was told nothing,
// so that first word of a well one is worth a signal only to an entity that may remember something else (first).
func (e *evaluator) stateOfNode(pod *corev1.Pod, first bool) {
	node, ok := get[*corev1.Node](e.store.nodes, pod.Spec.NodeName)
	if !ok {
		return // unplaced; or the node was not seen yet, or is gone, which is told when that is known
	}
	o := observe.NodeState(node, string(pod.UID))
	told, known := e.toldState[o.PodUID]
	switch {
	case known && observe.SameNodeState(told, o), !known && !first && o.Ready && !o.OutOfService:
		e.metrics.count(kindNodeOfVMI, resultSkipped)
		return
	}
	e.tellState(pod, o)
}

// goneNode tells the VMIs whose pods were on a node that the node exists no more; the caller holds the lock. uid is "" where the node was
// found missing.
func (e *evaluator) goneNode(name, uid string) {
	for _, pod := range e.store.launchersOn(name) {
		o := observe.GoneNodeState(name, uid, string(pod.UID))
		if told, known := e.toldState[o.PodUID]; known && told.Gone {
			continue
		}
		e.tellState(pod, o)
	}
}

// missingNode tells that the API server knows no node of that name, although pods are on it.
func (e *evaluator) missingNode(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, there := get[*corev1.Node](e.store.nodes, name); !there {
		e.goneNode(name, "")
	}
}

// tellState puts it behind the observation of the pod itself. It starts no workflow: a VMI that has ended its business has none.
func (e *evaluator) tellState(pod *corev1.Pod, o contract.NodeState) {
	ref := observe.Owner(pod)
	if ref == nil {
		return
	}
	e.toldState[o.PodUID] = o
	e.outbox.Put(Delivery{
		Workflow: contract.VMIID(pod.Namespace, ref.Name), Signal: contract.SignalObserveNode, UID: o.PodUID, Kind: kindNodeOfVMI, Payload: o,
	})
}
