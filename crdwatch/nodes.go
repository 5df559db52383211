package crdwatch

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// observeNode observes a node, and whether a node worker is ready there.
func (i *Informers) observeNode(node *corev1.Node) contract.NodeObservation {
	version := i.Workers.LastSyncResourceVersion() // of two with the same version the one that comes last counts
	o := observe.Node(node, i.workerReady(node.Name))
	o.WorkerVersion = version
	return o
}

// nodeForVMIs sends how a node is to the VMIs whose pods are there.
func (d *differ) nodeForVMIs(node *corev1.Node, _ contract.NodeObservation, _ bool, from origin) {
	for _, pod := range d.informers.launchersOn(node.Name) {
		d.nodeForVMI(pod, from)
	}
}

// nodeForVMI sends to a VMI how the node of its pod is. A VMI that has heard nothing takes its node for ready, so that
// the first observation of a well one is worth a signal only to an entity that may remember something else (resync).
func (d *differ) nodeForVMI(pod *corev1.Pod, from origin) {
	node, ok := get[*corev1.Node](d.informers.Nodes, pod.Spec.NodeName)
	if !ok {
		return // unplaced; or the node was not seen yet, or is gone, which is sent when that is known
	}
	k, o := nodeStateKind(), observe.NodeState(node, string(pod.UID))
	if _, known := recall(d, k, o.PodUID); !known && from == change && o.Ready && !o.OutOfService {
		d.metrics.count(k.name, resultSkipped)
		return
	}
	d.putNodeState(pod, o, from)
}

// nodeGoneForVMIs sends to the VMIs whose pods were on a node that the node exists no more. uid is "" where the node
// was found missing.
func (d *differ) nodeGoneForVMIs(name, uid string, from origin) {
	for _, pod := range d.informers.launchersOn(name) {
		o := observe.GoneNodeState(name, uid, string(pod.UID))
		if last, known := recall(d, nodeStateKind(), o.PodUID); !known || !last.Gone {
			d.putNodeState(pod, o, from)
		}
	}
}

// nodeMissing sends that the API server knows no node of that name, although pods are on it.
func (d *differ) nodeMissing(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, there := get[*corev1.Node](d.informers.Nodes, name); !there {
		d.nodeGoneForVMIs(name, "", resync)
	}
}

// putNodeState queues it behind the observation of the pod. It starts no workflow: a VMI that has ended its business
// has none.
func (d *differ) putNodeState(pod *corev1.Pod, o contract.NodeState, from origin) {
	k, ref := nodeStateKind(), observe.Owner(pod)
	if ref != nil && news(d, k, o.PodUID, o) {
		put(d, k, contract.VMIID(pod.Namespace, ref.Name), o.PodUID, o, nil, from)
	}
}
