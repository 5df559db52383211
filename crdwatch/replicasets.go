package crdwatch

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// replicasUID stands for the instances of a set where the outbox asks for the UID of what is observed: they go
// together.
const replicasUID = "replicas"

// replicasHold is how long an observation of one replica waits for those of others.
const replicasHold = 300 * time.Millisecond

// maxReplicasTogether is how many replicas are told of in one signal, some 200 KiB. Where there are more, the set is
// asked to look for itself.
const maxReplicasTogether = 500

// replicasOf sends a set that was not known, or has another selector, every instance that concerns it.
func (d *differ) replicasOf(
	set *kubevirt.VirtualMachineInstanceReplicaSet, last contract.ReplicaSetObservation, known bool, from origin,
) {
	if known && last.Selector == observe.ReplicaSet(set).Selector {
		return
	}
	for _, vmi := range d.informers.vmisIn(set.Namespace) {
		d.vmiForSet(vmi, set, from)
	}
}

// vmiForSets sends an instance to the sets of its namespace.
func (d *differ) vmiForSets(vmi *kubevirt.VirtualMachineInstance, from origin) {
	for _, set := range d.informers.setsIn(vmi.Namespace) {
		d.vmiForSet(vmi, set, from)
	}
}

// replicaKey names an instance as one set knows it.
func replicaKey(set *kubevirt.VirtualMachineInstanceReplicaSet, vmi *kubevirt.VirtualMachineInstance) string {
	return string(set.UID) + "/" + string(vmi.UID)
}

// vmiForSet sends a set an instance that it controls, or might adopt, and once more when that has ceased.
func (d *differ) vmiForSet(
	vmi *kubevirt.VirtualMachineInstance, set *kubevirt.VirtualMachineInstanceReplicaSet, from origin,
) {
	selector, err := observe.Selector(set)
	if err != nil {
		selector = labels.Nothing()
	}
	k, key, o := replicaKind(), replicaKey(set, vmi), observe.Replica(vmi, selector)
	_, known := recall(d, k, key)
	switch concerns := o.OwnerUID == string(set.UID) || o.OwnerUID == "" && o.Matches; {
	case concerns && !news(d, k, key, o), !concerns && !known:
		return
	case !concerns:
		forget(d, k, key)
	}
	d.putReplicas(set, contract.ReplicasObservation{Replicas: []contract.ReplicaObservation{o}}, from)
}

// vmiGoneForSets sends the sets that know an instance that it is gone.
func (d *differ) vmiGoneForSets(vmi *kubevirt.VirtualMachineInstance, from origin) {
	for _, set := range d.informers.setsIn(vmi.Namespace) {
		key, ref := replicaKey(set, vmi), observe.OwnerSet(vmi)
		if _, known := recall(d, replicaKind(), key); !known && (ref == nil || ref.UID != set.UID) {
			continue
		}
		forget(d, replicaKind(), key)
		d.putReplicas(set, contract.ReplicasObservation{
			Replicas: []contract.ReplicaObservation{observe.GoneReplica(vmi)}}, from)
	}
}

// resyncReplicas asks a set to look for its instances itself.
func (d *differ) resyncReplicas(set *kubevirt.VirtualMachineInstanceReplicaSet) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.putReplicas(set, contract.ReplicasObservation{Resync: true}, resync)
}

// putReplicas waits a little for more: fifty replicas that come up together go in a few signals. They start no
// workflow: one that had not seen its set would wait for it, and be counted as there.
func (d *differ) putReplicas(
	set *kubevirt.VirtualMachineInstanceReplicaSet, o contract.ReplicasObservation, from origin,
) {
	k := replicaKind()
	d.queue.Put(Delivery{
		Workflow: contract.ReplicaSetID(set.Namespace, set.Name), Signal: k.signal, UID: replicasUID, Kind: k.name,
		Payload: o,
		Resync:  from == resync, Merge: mergeReplicas, Hold: replicasHold,
	})
}

// mergeReplicas is what two observations say together, the later one of each replica.
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

// missedReplicas finds the sets whose status does not count what there is, and asks them to look.
func (r *resyncer) missedReplicas() {
	for _, set := range list[*kubevirt.VirtualMachineInstanceReplicaSet](r.informers.ReplicaSets) {
		selector, err := observe.Selector(set)
		if err != nil || set.DeletionTimestamp != nil {
			continue
		}
		n := 0
		for _, vmi := range r.informers.vmisIn(set.Namespace) {
			if observe.Replica(vmi, selector).CountsFor(string(set.UID)) {
				n++
			}
		}
		if int(set.Status.Replicas) != n {
			r.differ.resyncReplicas(set)
		}
	}
}

func (i *Informers) setsIn(namespace string) []*kubevirt.VirtualMachineInstanceReplicaSet {
	return indexed[*kubevirt.VirtualMachineInstanceReplicaSet](i.ReplicaSets, cache.NamespaceIndex, namespace)
}

func (i *Informers) vmisIn(namespace string) []*kubevirt.VirtualMachineInstance {
	return indexed[*kubevirt.VirtualMachineInstance](i.VMIs, cache.NamespaceIndex, namespace)
}
