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

// besideNode sends how a node is to the VMIs whose pods are there; and to a node that was not known how many are asked
// to leave it.
func (d *differ) besideNode(node *corev1.Node, _ contract.NodeObservation, known bool, from origin) {
	if !known {
		d.evacueesOfNode(node)
	}
	for _, pod := range d.informers.launchersOn(node.Name) {
		d.nodeForVMI(pod, from)
	}
}

// nodeForVMI sends to a VMI, and to its migrations, how the node of its pod is. Who has heard nothing takes the node
// for ready, so that the first observation of a well one is worth a signal only to an entity that may remember
// something else (resync).
func (d *differ) nodeForVMI(pod *corev1.Pod, from origin) {
	node, ok := get[*corev1.Node](d.informers.Nodes, pod.Spec.NodeName)
	if !ok {
		return // unplaced; or the node was not seen yet, or is gone, which is sent when that is known
	}
	o := observe.NodeState(node, string(pod.UID))
	for _, h := range d.hearersOf(pod) {
		if _, known := recall(d, h.kind, h.key); !known && from == change && o.Ready && !o.OutOfService {
			d.metrics.count(h.kind.name, resultSkipped)
			continue
		}
		h.put(d, o, from)
	}
}

// nodeGoneForVMIs sends to the VMIs whose pods were on a node that the node exists no more. uid is "" where the node
// was found missing. A pod that is younger than the node's next object was never on this one.
func (d *differ) nodeGoneForVMIs(name, uid string, from origin) {
	next, there := get[*corev1.Node](d.informers.Nodes, name)
	for _, pod := range d.informers.launchersOn(name) {
		if there && string(next.UID) != uid && next.CreationTimestamp.Before(&pod.CreationTimestamp) {
			continue
		}
		o := observe.GoneNodeState(name, uid, string(pod.UID))
		for _, h := range d.hearersOf(pod) {
			if last, known := recall(d, h.kind, h.key); !known || !last.Gone || uid != "" && last.UID != uid {
				h.put(d, o, from)
			}
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

// hearer is a workflow that hears of the node of a launcher pod.
type hearer struct {
	kind     kind[contract.NodeState]
	workflow string
	key      string // of what was sent to it
}

// hearersOf are the VMI of a launcher pod, and the migrations that it concerns.
func (d *differ) hearersOf(pod *corev1.Pod) []hearer {
	ref := observe.Owner(pod)
	if ref == nil {
		return nil
	}
	out := []hearer{{kind: nodeStateKind(), workflow: contract.VMIID(pod.Namespace, ref.Name), key: string(pod.UID)}}
	for _, m := range d.migrationsOf(pod) {
		out = append(out, hearer{kind: migrationNodeKind(), workflow: contract.MigrationID(m.Namespace, m.Name),
			key: migrationKey(m, string(pod.UID))})
	}
	return out
}

// put queues it behind the observation of the pod. It starts no workflow: what has ended its business has none.
func (h hearer) put(d *differ, o contract.NodeState, from origin) {
	if news(d, h.kind, h.key, o) {
		put(d, h.kind, h.workflow, o.PodUID, o, nil, from)
	}
}
