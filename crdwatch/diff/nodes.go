package diff

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/observe"
)

// nodeStates sends the state of nodes to the workflows of the launcher pods that are there.
type nodeStates struct{ *record }

// send sends the state of a node to the VMIs whose pods are there, and to their migrations.
func (n nodeStates) send(node *corev1.Node, from delivery.Cause) {
	for _, pod := range n.informers.LaunchersOn(node.Name) {
		n.sendOf(pod, from)
	}
}

// sendOf sends the state of a pod's node to its VMI and the migrations of that. A workflow without an
// observation takes the node for ready, so that a first observation of a healthy node is only sent on a resync, to an
// entity that may have other state.
func (n nodeStates) sendOf(pod *corev1.Pod, from delivery.Cause) {
	node, ok := watch.Get[*corev1.Node](n.informers.Nodes, pod.Spec.NodeName)
	if !ok {
		return // the pod has no node, or the informer does not have the node; its end is sent separately
	}
	o := observe.NodeState(node, string(pod.UID))
	for _, h := range n.observersOf(pod) {
		if _, known := recall(n.record, h.kind, h.key); !known && from == change && o.Ready && !o.OutOfService {
			n.metrics.CountSkipped(h.kind.name)
			continue
		}
		h.put(n.record, o, from)
	}
}

// sendGone sends the VMIs whose pods were on a node that it does not exist any more. uid is "" if the node was
// found missing. A pod that is younger than the node's next object was never on this one.
func (n nodeStates) sendGone(name, uid string, from delivery.Cause) {
	next, there := watch.Get[*corev1.Node](n.informers.Nodes, name)
	for _, pod := range n.informers.LaunchersOn(name) {
		if there && string(next.UID) != uid && next.CreationTimestamp.Before(&pod.CreationTimestamp) {
			continue
		}
		o := observe.GoneNodeState(name, uid, string(pod.UID))
		for _, h := range n.observersOf(pod) {
			if last, known := recall(n.record, h.kind, h.key); !known || !last.Gone || uid != "" && last.UID != uid {
				h.put(n.record, o, from)
			}
		}
	}
}

// nodeObserver is a workflow that gets observations of the node of a launcher pod.
type nodeObserver struct {
	kind     kind[contract.NodeState]
	workflow string
	key      string // of what was sent to it
}

// observersOf returns the VMI of a launcher pod, and the migrations that it concerns.
func (n nodeStates) observersOf(pod *corev1.Pod) []nodeObserver {
	ref := observe.Owner(pod)
	if ref == nil {
		return nil
	}
	out := []nodeObserver{
		{kind: nodeStateKind(), workflow: contract.VMIID(pod.Namespace, ref.Name), key: string(pod.UID)},
	}
	for _, m := range n.informers.MigrationsOfPod(pod) {
		out = append(out, nodeObserver{kind: migrationNodeKind(), workflow: contract.MigrationID(m.Namespace, m.Name),
			key: migrationKey(m, string(pod.UID))})
	}
	return out
}

// put queues the state behind the observation of the pod. It starts no workflow, since an object that needs its
// workflow has one.
func (h nodeObserver) put(r *record, o contract.NodeState, from delivery.Cause) {
	if recordNew(r, h.kind, h.key, o) {
		put(r, h.kind, h.workflow, o.PodUID, o, nil, from)
	}
}
