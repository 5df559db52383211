package crdwatch

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// replicasUID stands for the instances of a set where the outbox asks for the UID of what is observed: they are told together.
const replicasUID = "replicas"

// replica names an instance as one set knows it.
type replica struct{ set, vmi string } // UIDs

// replicaSet tells a set of itself, and of every instance that concerns it which it has not been told of.
func (e *evaluator) replicaSet(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	set, ok := get[*kubevirt.VirtualMachineInstanceReplicaSet](e.store.sets, key)
	if !ok {
		return
	}
	o := observe.ReplicaSet(set)
	told, known := e.toldSet[o.UID]
	if known && observe.SameReplicaSet(told, o) {
		e.metrics.count(kindReplicaSet, resultSkipped)
		return
	}
	e.toldSet[o.UID] = o
	e.outbox.Put(Delivery{
		Workflow: contract.ReplicaSetID(set.Namespace, set.Name), Signal: contract.SignalObserveReplicaSet, UID: o.UID, Kind: kindReplicaSet, Payload: o,
		Start: startReplicaSet(set.Namespace, set.Name, o.UID),
	})
	if known && told.Selector == o.Selector {
		return
	}
	for _, vmi := range e.store.vmisIn(set.Namespace) {
		e.vmiForSet(vmi, set)
	}
}

func (e *evaluator) replicaSetGone(set *kubevirt.VirtualMachineInstanceReplicaSet) {
	e.mu.Lock()
	defer e.mu.Unlock()
	uid := string(set.UID)
	e.forgetSet(uid)
	e.outbox.Put(Delivery{
		Workflow: contract.ReplicaSetID(set.Namespace, set.Name), Signal: contract.SignalObserveReplicaSet, UID: uid, Kind: kindReplicaSet,
		Payload: observe.GoneReplicaSet(uid),
	})
}

// forgetSet makes the next evaluation of a set tell it everything again.
func (e *evaluator) forgetSet(uid string) {
	delete(e.toldSet, uid)
	for r := range e.toldReplica {
		if r.set == uid {
			delete(e.toldReplica, r)
		}
	}
}

// vmiForSets tells the sets of its namespace of an instance.
func (e *evaluator) vmiForSets(vmi *kubevirt.VirtualMachineInstance) {
	for _, set := range e.store.setsIn(vmi.Namespace) {
		e.vmiForSet(vmi, set)
	}
}

// vmiForSet tells a set of an instance that it controls, or might adopt, and once more when that has ceased.
func (e *evaluator) vmiForSet(vmi *kubevirt.VirtualMachineInstance, set *kubevirt.VirtualMachineInstanceReplicaSet) {
	selector, err := observe.Selector(set)
	if err != nil {
		selector = labels.Nothing()
	}
	o := observe.Replica(vmi, selector)
	which := replica{set: string(set.UID), vmi: o.UID}
	told, known := e.toldReplica[which]
	concerns := o.OwnerUID == which.set || o.OwnerUID == "" && o.Matches
	switch {
	case !concerns && !known:
		return
	case concerns && known && observe.SameReplica(told, o):
		e.metrics.count(kindReplica, resultSkipped)
		return
	case concerns:
		e.toldReplica[which] = o
	default:
		delete(e.toldReplica, which)
	}
	e.putReplica(set, contract.ReplicasObservation{Replicas: []contract.ReplicaObservation{o}})
}

// vmiGoneForSets tells the sets that know an instance that it is gone.
func (e *evaluator) vmiGoneForSets(vmi *kubevirt.VirtualMachineInstance) {
	for _, set := range e.store.setsIn(vmi.Namespace) {
		which := replica{set: string(set.UID), vmi: string(vmi.UID)}
		ref := observe.OwnerSet(vmi)
		if _, known := e.toldReplica[which]; !known && (ref == nil || ref.UID != set.UID) {
			continue
		}
		delete(e.toldReplica, which)
		e.putReplica(set, contract.ReplicasObservation{Replicas: []contract.ReplicaObservation{observe.GoneReplica(vmi)}})
	}
}

// resyncReplicas asks a set to look for its instances itself.
func (e *evaluator) resyncReplicas(set *kubevirt.VirtualMachineInstanceReplicaSet) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.putReplica(set, contract.ReplicasObservation{Resync: true})
}

// putReplica waits a little for more: fifty replicas that come up together are told in a few signals.
func (e *evaluator) putReplica(set *kubevirt.VirtualMachineInstanceReplicaSet, o contract.ReplicasObservation) {
	e.outbox.Put(Delivery{
		Workflow: contract.ReplicaSetID(set.Namespace, set.Name), Signal: contract.SignalObserveReplicas, UID: replicasUID, Kind: kindReplica, Payload: o,
		Start: startReplicaSet(set.Namespace, set.Name, string(set.UID)),
		Merge: mergeReplicas, Hold: replicasHold,
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
	later := map[string]bool{}
	for _, r := range b.Replicas {
		later[r.UID] = true
	}
	for _, r := range a.Replicas {
		if !later[r.UID] {
			out.Replicas = append(out.Replicas, r)
		}
	}
	out.Replicas = append(out.Replicas, b.Replicas...)
	return out
}

func startReplicaSet(namespace, name, uid string) *Start {
	return &Start{
		Type: contract.WorkflowReplicaSet, Input: contract.EntityInput{Namespace: namespace, Name: name},
		Summary: "VirtualMachineInstanceReplicaSet " + namespace + "/" + name,
		Search:  map[string]string{contract.SearchNamespace: namespace, contract.SearchName: name, contract.SearchUID: uid},
	}
}

// missedReplicas finds the sets whose status does not count what there is, and asks them to look.
func (r *repairer) missedReplicas() {
	for _, set := range list[*kubevirt.VirtualMachineInstanceReplicaSet](r.store.sets) {
		selector, err := observe.Selector(set)
		if err != nil || set.DeletionTimestamp != nil {
			continue
		}
		n := 0
		for _, vmi := range r.store.vmisIn(set.Namespace) {
			if observe.CountsAsReplica(observe.Replica(vmi, selector), string(set.UID)) {
				n++
			}
		}
		if int(set.Status.Replicas) != n {
			r.evaluator.resyncReplicas(set)
		}
	}
}

// lostReplicaSets tells the sets that have no workflow again, which starts one.
func (r *repairer) lostReplicaSets(open map[string]string) {
	for _, set := range list[*kubevirt.VirtualMachineInstanceReplicaSet](r.store.sets) {
		if _, ok := open[contract.ReplicaSetID(set.Namespace, set.Name)]; !ok {
			r.evaluator.forget(string(set.UID))
			r.evaluator.replicaSet(set.Namespace + "/" + set.Name)
		}
	}
}

func (s *store) setsIn(namespace string) []*kubevirt.VirtualMachineInstanceReplicaSet {
	return inNamespace[*kubevirt.VirtualMachineInstanceReplicaSet](s.sets, namespace)
}

func (s *store) vmisIn(namespace string) []*kubevirt.VirtualMachineInstance {
	return inNamespace[*kubevirt.VirtualMachineInstance](s.vmis, namespace)
}

// inNamespace reads the objects of an informer that has an index by namespace.
func inNamespace[T any](i cache.SharedIndexInformer, namespace string) []T {
	objects, err := i.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil
	}
	var out []T
	for _, o := range objects {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}
