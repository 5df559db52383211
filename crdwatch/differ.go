package crdwatch

import (
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/contract"
)

// origin says why an object is looked at.
type origin int

const (
	// change: the informer has seen it change.
	change origin = iota
	// resync: nothing has changed, but its workflow may never have heard of it.
	resync
)

// differ compares what the informers hold with what was sent last, and queues what is worth sending. It reads the
// informers' state, not their events, under one lock: what it queues last is newest. Its memory lasts as long as one
// leadership, so that a new leader sends everything once.
type differ struct {
	informers *Informers
	queue     Queue
	metrics   *Metrics
	entities  entities

	mu sync.Mutex
	// last is what was sent last, by the name of the kind and the UID of the object.
	last map[string]map[string]any
	ends ends
}

func newDiffer(i *Informers, q Queue, m *Metrics) *differ {
	return &differ{informers: i, queue: q, metrics: m, entities: describe(i), last: map[string]map[string]any{},
		ends: newEnds(clock.RealClock{})}
}

// recall is what was sent last.
func recall[O any](d *differ, k kind[O], uid string) (last O, known bool) {
	last, known = d.last[k.name][uid].(O)
	return last, known
}

// news says that an observation is worth sending, and remembers it as sent.
func news[O any](d *differ, k kind[O], uid string, now O) bool {
	if last, known := recall(d, k, uid); known && k.same(last, now) {
		d.metrics.count(k.name, resultSkipped)
		return false
	}
	remember(d, k, uid, now)
	return true
}

func remember[O any](d *differ, k kind[O], uid string, now O) {
	if d.last[k.name] == nil {
		d.last[k.name] = map[string]any{}
	}
	d.last[k.name][uid] = now
}

func forget[O any](d *differ, k kind[O], uid string) { delete(d.last[k.name], uid) }

// forgetAll drops what was sent, so that all of it is sent again.
func (d *differ) forgetAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = map[string]map[string]any{}
	d.ends = newEnds(d.ends.clock)
}

// told says that an informer has seen the end of an object lately, and that a workflow which has run since then was
// sent it.
func (d *differ) told(uid string, since time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ends.told(uid, since)
}

// put queues an observation.
func put[O any](d *differ, k kind[O], workflow, uid string, o any, start *Start, from origin) {
	putHeld(d, k, workflow, uid, o, start, from, 0)
}

// putHeld queues an observation that may wait for what comes next, unless it is to start its workflow, or is resynced.
func putHeld[O any](
	d *differ, k kind[O], workflow, uid string, o any, start *Start, from origin, hold time.Duration,
) {
	if start != nil || from == resync {
		hold = 0
	}
	d.queue.Put(Delivery{
		Workflow: workflow, Signal: k.signal, UID: uid, Kind: k.name, Payload: o, Start: start, Resync: from == resync,
		Hold: hold,
	})
}

// changed sends what an object says to its workflow, which is started where it does not run, and to others.
func (e *entity[T, O]) changed(d *differ, key string, from origin) {
	d.mu.Lock()
	defer d.mu.Unlock()
	object, ok := get[T](e.informer, key)
	if !ok {
		return
	}
	namespace, name, uid := object.GetNamespace(), object.GetName(), string(object.GetUID())
	last, known := recall(d, e.kind, uid)
	start := e.start(namespace, name, uid)
	if !e.open(object) {
		start = nil
	}
	now := e.observe(object)
	delivery := Delivery{Workflow: e.id(namespace, name), Signal: e.signal, UID: uid, Kind: e.name, Payload: now,
		Start: start, Resync: from == resync}
	if _, writes := any(now).(contract.Repeatable); news(d, e.kind, uid, now) {
		delivery.FlowControlled = known && from == change && e.asks != nil && e.asks(last, now)
		d.queue.Put(delivery)
	} else if writes && from == change {
		delivery.Known = true
		d.queue.Put(delivery)
	}
	if !known && e.forget != nil {
		e.forget(d, object) // what was sent before this had a workflow to go to may be lost: also sends it once more
	}
	if e.also != nil {
		e.also(d, object, last, known, from)
	}
}

// open says that an object needs its workflow.
func (e *entity[T, O]) open(object T) bool { return e.closed == nil || !e.closed(object) }

// vanished sends that an object exists no more. It starts no workflow.
func (e *entity[T, O]) vanished(d *differ, object T, from origin) {
	d.mu.Lock()
	defer d.mu.Unlock()
	uid := string(object.GetUID())
	forget(d, e.kind, uid)
	if from == change {
		d.ends.add(uid)
	}
	putHeld(d, e.kind, e.id(object.GetNamespace(), object.GetName()), uid, e.gone(uid), nil, from, e.goneHold)
	if e.alsoGone != nil {
		e.alsoGone(d, object, from)
	}
}

// again sends everything that the workflow of an object is to know, as to one that has heard of nothing.
func (e *entity[T, O]) again(d *differ, object T) {
	d.mu.Lock()
	forget(d, e.kind, string(object.GetUID()))
	d.mu.Unlock()
	e.changed(d, cache.MetaObjectToName(object).String(), resync)
}

// instanceOf sends a VM that was not known what its instance says, which may have been seen before it.
func (d *differ) instanceOf(vm *kubevirt.VirtualMachine, from origin) {
	if vmi, ok := get[*kubevirt.VirtualMachineInstance](d.informers.VMIs, vm.Namespace+"/"+vm.Name); ok {
		d.vmiForVM(vmi, from)
	}
}

func (d *differ) forgetInstanceOf(vm *kubevirt.VirtualMachine) {
	if vmi, ok := get[*kubevirt.VirtualMachineInstance](d.informers.VMIs, vm.Namespace+"/"+vm.Name); ok {
		forget(d, copyKind(), string(vmi.UID))
	}
}

// vmiForVM sends a VMI to the VM that controls it. The workflow of a VM is not started by its instance: it gets it
// when the VM appears, or is sent again. A VM that stays also gets an instance which was made for it and has lost
// its ownerReference since.
func (d *differ) vmiForVM(vmi *kubevirt.VirtualMachineInstance, from origin) {
	ref, controls := observe.OwnerVM(vmi), true
	if ref == nil {
		ref, controls = d.formerOwner(vmi), false
	}
	if ref == nil {
		return
	}
	o := d.informers.observeVMI(vmi)
	o.OwnerUID = string(ref.UID)
	o = observe.VMIForVM(o)
	k, workflow := copyKind(), contract.VMID(vmi.Namespace, ref.Name)
	vm, ok := get[*kubevirt.VirtualMachine](d.informers.VMs, vmi.Namespace+"/"+ref.Name)
	if !ok || vm.UID != ref.UID {
		put(d, k, workflow, o.UID, o, nil, from)
		return
	}
	_, known := recall(d, k, o.UID)
	made := !known && controls && k.same(observe.NewCopy(o), o) && runstrategy.Unasked(new(observe.VM(vm)))
	if news(d, k, o.UID, o) {
		putHeld(d, k, workflow, o.UID, o, nil, from, copyHold(o, vm.DeletionTimestamp != nil, made))
	}
}

// formerOwner is the VM that an instance without a controller was made for, as long as that VM is to stay; or nil.
func (d *differ) formerOwner(vmi *kubevirt.VirtualMachineInstance) *metav1.OwnerReference {
	if metav1.GetControllerOfNoCopy(vmi) != nil {
		return nil
	}
	vm, ok := get[*kubevirt.VirtualMachine](d.informers.VMs, vmi.Namespace+"/"+vmi.Name)
	if !ok || vm.DeletionTimestamp != nil || !observe.MadeFor(vmi, string(vm.UID)) {
		return nil
	}
	return &metav1.OwnerReference{Name: vm.Name, UID: vm.UID}
}

// vmiGoneForVM sends the end of a VMI to the VM that controls it; where nobody does, to one of its name, which may wait
// for an instance that lost its ownerReference on its way out (kubectl delete vm --cascade=orphan).
func (d *differ) vmiGoneForVM(vmi *kubevirt.VirtualMachineInstance, from origin) {
	uid := string(vmi.UID)
	forget(d, copyKind(), uid)
	name := vmi.Name
	if ref := observe.OwnerVM(vmi); ref != nil {
		name = ref.Name
	} else if metav1.GetControllerOfNoCopy(vmi) != nil {
		return
	} else if _, ok := get[*kubevirt.VirtualMachine](d.informers.VMs, vmi.Namespace+"/"+name); !ok {
		return
	}
	put(d, copyKind(), contract.VMID(vmi.Namespace, name), uid, observe.GoneVMI(uid), nil, from)
}

// pod sends a launcher pod to its VMI, and to migrations. One that has just been made is what the VMI's entity knows
// already, having made it, unless the entity may have forgotten, or a migration has made it.
func (d *differ) pod(key string, from origin) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if pod, ok := get[*corev1.Pod](d.informers.Pods, key); ok {
		d.podChanged(pod, from)
	}
}

// podChanged is pod under the lock.
func (d *differ) podChanged(pod *corev1.Pod, from origin) {
	ref := observe.Owner(pod)
	if ref == nil {
		return // somebody else's
	}
	k, o := podKind(), observe.Pod(pod)
	_, known := recall(d, k, o.UID)
	if !known && from == change && o.Migration == "" && k.same(observe.NewPod(o), o) {
		d.metrics.count(k.name, resultSkipped)
	} else if news(d, k, o.UID, o) {
		start := d.startForPod(pod, ref)
		if start != nil && !known {
			forget(d, nodeStateKind(), o.UID) // it may have been sent before there was a workflow
		}
		putHeld(d, k, contract.VMIID(pod.Namespace, ref.Name), o.UID, o, start, from,
			podHold(o, slices.Contains(o.Finalizers, contract.FinalizerPod), d.informers.ownerGoes(pod, ref)))
	}
	for _, m := range d.migrationsOf(pod) {
		d.podForMigration(m, o, from)
	}
	d.nodeForVMI(pod, from)
}

// startForPod is how a pod starts the workflow of its VMI: where that is gone, and its pod still has business. A VMI
// that is there starts its workflow itself, with everything that it is to know; one that its pod had started would not
// hear of the rest, which was sent before.
func (d *differ) startForPod(pod *corev1.Pod, ref *contract.Object) *Start {
	if d.informers.hasOwner(pod, ref) {
		return nil
	}
	return d.entities.vmi.start(pod.Namespace, ref.Name, ref.UID)
}

func (d *differ) podGone(pod *corev1.Pod, from origin) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ref := observe.Owner(pod)
	if ref == nil {
		return
	}
	uid := string(pod.UID)
	last, known := recall(d, podKind(), uid)
	d.forgetPod(uid)
	gone := observe.GonePod(uid, pod.Name, ref.UID)
	putHeld(d, podKind(), contract.VMIID(pod.Namespace, ref.Name), uid, gone, nil, from, podGoneHold(last, known))
	for _, m := range d.migrationsOf(pod) {
		d.podGoneForMigration(m, gone, from)
	}
}

// podAgain sends a launcher pod as to a workflow that has heard of nothing.
func (d *differ) podAgain(pod *corev1.Pod) {
	d.mu.Lock()
	d.forgetPod(string(pod.UID))
	d.mu.Unlock()
	d.pod(cache.MetaObjectToName(pod).String(), resync)
}

func (d *differ) forgetPod(uid string) {
	forget(d, podKind(), uid)
	forget(d, nodeStateKind(), uid)
}

// podsOf sends a VMI that was not known all its launcher pods, with their nodes. One that is new has none.
func (d *differ) podsOf(vmi *kubevirt.VirtualMachineInstance) {
	for _, pod := range d.informers.podsOf(string(vmi.UID)) {
		d.podChanged(pod, resync)
	}
}

func (d *differ) forgetPodsOf(vmi *kubevirt.VirtualMachineInstance) {
	for _, pod := range d.informers.podsOf(string(vmi.UID)) {
		d.forgetPod(string(pod.UID))
	}
}

// forgetReplicasOf drops what was sent to a set of its instances.
func (d *differ) forgetReplicasOf(set *kubevirt.VirtualMachineInstanceReplicaSet) {
	forgetOf(d, replicaKind(), string(set.UID))
}

// forgetOf drops what was sent to an object of others, whose keys begin with its UID.
func forgetOf[O any](d *differ, k kind[O], uid string) {
	sent := d.last[k.name]
	for key := range sent {
		if strings.HasPrefix(key, uid+"/") {
			delete(sent, key)
		}
	}
}
