package diff

import (
	"k8s.io/apimachinery/pkg/labels"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/observe"
)

// replicasUID is the UID in deliveries about the instances of a set: one delivery has several of them.
const replicasUID = "replicas"

// maxReplicasTogether is how many replicas one signal may have, some 200 KiB. If there are more, the signal has the set
// list its replicas.
const maxReplicasTogether = 500

// replicas sends replica sets the observations of instances that they control or might adopt.
type replicas struct{ *record }

// sendAllTo sends a set that was not known, or has another selector, every instance that concerns it.
func (s replicas) sendAllTo(
	set *kubevirt.VirtualMachineInstanceReplicaSet, last contract.ReplicaSetObservation, known bool,
	from delivery.Cause,
) {
	if known && last.Selector == observe.ReplicaSet(set).Selector {
		return
	}
	for _, vmi := range s.informers.VMIsIn(set.Namespace) {
		s.sendTo(vmi, set, from)
	}
}

// send sends an instance to the sets of its namespace.
func (s replicas) send(vmi *kubevirt.VirtualMachineInstance, from delivery.Cause) {
	for _, set := range s.informers.SetsIn(vmi.Namespace) {
		s.sendTo(vmi, set, from)
	}
}

// replicaKey identifies an instance in the record of one set.
func replicaKey(set *kubevirt.VirtualMachineInstanceReplicaSet, vmi *kubevirt.VirtualMachineInstance) string {
	return string(set.UID) + "/" + string(vmi.UID)
}

// sendTo sends a set an instance that it controls, or might adopt, and once more when neither holds any more.
func (s replicas) sendTo(
	vmi *kubevirt.VirtualMachineInstance, set *kubevirt.VirtualMachineInstanceReplicaSet, from delivery.Cause,
) {
	selector, err := observe.Selector(set)
	if err != nil {
		selector = labels.Nothing()
	}
	k, key, o := replicaKind(), replicaKey(set, vmi), observe.Replica(vmi, selector)
	_, known := recall(s.record, k, key)
	switch concerns := o.OwnerUID == string(set.UID) || o.OwnerUID == "" && o.Matches; {
	case concerns && !recordNew(s.record, k, key, o), !concerns && !known:
		return
	case !concerns:
		forget(s.record, k, key)
	}
	s.put(set, contract.ReplicasObservation{Replicas: []contract.ReplicaObservation{o}}, from)
}

// sendGone sends the sets that were sent an instance that it is gone.
func (s replicas) sendGone(vmi *kubevirt.VirtualMachineInstance, from delivery.Cause) {
	for _, set := range s.informers.SetsIn(vmi.Namespace) {
		key, ref := replicaKey(set, vmi), observe.OwnerSet(vmi)
		if _, known := recall(s.record, replicaKind(), key); !known && (ref == nil || ref.UID != set.UID) {
			continue
		}
		forget(s.record, replicaKind(), key)
		s.put(set, contract.ReplicasObservation{
			Replicas: []contract.ReplicaObservation{observe.GoneReplica(vmi)}}, from)
	}
}

// resync has a set list its replicas.
func (s replicas) resync(set *kubevirt.VirtualMachineInstanceReplicaSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(set, contract.ReplicasObservation{Resync: true}, delivery.Resynced)
}

// put debounces, so that fifty replicas that start together take a few signals. They start no workflow: one
// that did not have its set yet would wait for it, and be counted as running.
func (s replicas) put(
	set *kubevirt.VirtualMachineInstanceReplicaSet, o contract.ReplicasObservation, from delivery.Cause,
) {
	k := replicaKind()
	s.queue.Put(delivery.Delivery{
		Workflow: contract.ReplicaSetID(set.Namespace, set.Name), Signal: k.signal, UID: replicasUID, Kind: k.name,
		Payload: o, Merge: mergeReplicas, Policy: delivery.PolicyOf(k.name, from),
	})
}

// forgetOf drops the record of the instances that were sent to a set.
func (s replicas) forgetOf(set *kubevirt.VirtualMachineInstanceReplicaSet) {
	forgetOf(s.record, replicaKind(), string(set.UID))
}

// mergeReplicas merges two observations, and keeps the later one of each replica.
func mergeReplicas(before, after any) any {
	a, okA := before.(contract.ReplicasObservation)
	b, okB := after.(contract.ReplicasObservation)
	if !okA || !okB {
		return after
	}
	out := contract.ReplicasObservation{Resync: a.Resync || b.Resync}
	newer := map[string]bool{}
	for _, r := range b.Replicas {
		newer[r.UID] = true
	}
	for _, r := range a.Replicas {
		if !newer[r.UID] {
			out.Replicas = append(out.Replicas, r)
		}
	}
	out.Replicas = append(out.Replicas, b.Replicas...)
	if len(out.Replicas) > maxReplicasTogether {
		return contract.ReplicasObservation{Resync: true}
	}
	return out
}

// resyncMissed has the sets list their replicas whose status has another number than there are.
func (s replicas) resyncMissed() {
	for _, set := range watch.List[*kubevirt.VirtualMachineInstanceReplicaSet](s.informers.ReplicaSets) {
		selector, err := observe.Selector(set)
		if err != nil || set.DeletionTimestamp != nil {
			continue
		}
		n := 0
		for _, vmi := range s.informers.VMIsIn(set.Namespace) {
			if observe.Replica(vmi, selector).CountsFor(string(set.UID)) {
				n++
			}
		}
		if int(set.Status.Replicas) != n {
			s.resync(set)
		}
	}
}
