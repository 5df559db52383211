package crdwatch

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// evaluator compares what the informers hold with what was last told, and puts what is worth telling into the outbox. It reads the
// informers' state, not their events, under one lock: what it puts last is newest. Its memory lasts as long as one leadership, so
// that a new leader tells everything once.
type evaluator struct {
	store   *store
	outbox  *Outbox
	metrics *metrics

	mu       sync.Mutex
	toldVM   map[string]contract.VMObservation // by UID, as all of these
	toldVMI  map[string]contract.VMIObservation
	toldCopy map[string]contract.VMIObservation // the VM's copy of a VMI
	toldPod  map[string]contract.PodObservation
	toldNode map[string]contract.NodeObservation
	// toldState is what VMIs were told of their pods' nodes, by the UID of the pod.
	toldState map[string]contract.NodeState

	toldSet     map[string]contract.ReplicaSetObservation
	toldReplica map[replica]contract.ReplicaObservation
}

func newEvaluator(s *store, o *Outbox, m *metrics) *evaluator {
	return &evaluator{
		store: s, outbox: o, metrics: m,
		toldVM: map[string]contract.VMObservation{}, toldVMI: map[string]contract.VMIObservation{}, toldCopy: map[string]contract.VMIObservation{},
		toldPod: map[string]contract.PodObservation{}, toldNode: map[string]contract.NodeObservation{},
		toldState: map[string]contract.NodeState{},
		toldSet:   map[string]contract.ReplicaSetObservation{}, toldReplica: map[replica]contract.ReplicaObservation{},
	}
}

// all evaluates everything there is.
func (e *evaluator) all() {
	for _, key := range e.store.vms.GetStore().ListKeys() {
		e.vm(key)
	}
	for _, key := range e.store.sets.GetStore().ListKeys() {
		e.replicaSet(key)
	}
	for _, key := range e.store.vmis.GetStore().ListKeys() {
		e.vmi(key)
	}
	for _, key := range e.store.pods.GetStore().ListKeys() {
		e.pod(key, true)
	}
	for _, key := range e.store.nodes.GetStore().ListKeys() {
		e.node(key)
	}
}

func (e *evaluator) vm(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	vm, ok := get[*kubevirt.VirtualMachine](e.store.vms, key)
	if !ok {
		return
	}
	o := observe.VM(vm)
	if told, ok := e.toldVM[o.UID]; ok && observe.SameVM(told, o) {
		e.metrics.count(kindVM, resultSkipped)
		return
	}
	_, known := e.toldVM[o.UID]
	e.toldVM[o.UID] = o
	e.outbox.Put(Delivery{
		Workflow: contract.VMID(vm.Namespace, vm.Name), Signal: contract.SignalObserveVM, UID: o.UID, Kind: kindVM, Payload: o,
		Start: startVM(vm.Namespace, vm.Name, o.UID),
	})
	if !known { // its instance may have been seen before it
		if vmi, ok := get[*kubevirt.VirtualMachineInstance](e.store.vmis, key); ok {
			e.vmiForVM(vmi, observe.VMI(vmi))
		}
	}
}

func (e *evaluator) vmGone(vm *kubevirt.VirtualMachine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	uid := string(vm.UID)
	delete(e.toldVM, uid)
	e.outbox.Put(Delivery{
		Workflow: contract.VMID(vm.Namespace, vm.Name), Signal: contract.SignalObserveVM, UID: uid, Kind: kindVM, Payload: observe.GoneVM(uid),
	})
}

func (e *evaluator) vmi(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	vmi, ok := get[*kubevirt.VirtualMachineInstance](e.store.vmis, key)
	if !ok {
		return
	}
	o := observe.VMI(vmi)
	if told, ok := e.toldVMI[o.UID]; ok && observe.SameVMI(told, o) {
		e.metrics.count(kindVMI, resultSkipped)
	} else {
		e.toldVMI[o.UID] = o
		e.outbox.Put(Delivery{
			Workflow: contract.VMIID(vmi.Namespace, vmi.Name), Signal: contract.SignalObserveVMI, UID: o.UID, Kind: kindVMI, Payload: o,
			Start: startVMI(vmi.Namespace, vmi.Name, o.UID),
		})
	}
	e.vmiForVM(vmi, o)
	e.vmiForSets(vmi)
}

// vmiForVM tells the VM that controls a VMI. A VM that is not there (yet, or any more) is not brought to life by its instance: when it
// appears, it is told then. One that stays is also told of an instance which was made for it and lost its ownerReference since.
func (e *evaluator) vmiForVM(vmi *kubevirt.VirtualMachineInstance, o contract.VMIObservation) {
	ref := observe.OwnerVM(vmi)
	if ref == nil {
		ref = e.maker(vmi)
	}
	if ref == nil {
		return
	}
	o.OwnerUID = string(ref.UID)
	o = observe.VMIForVM(o)
	if told, ok := e.toldCopy[o.UID]; ok && observe.SameCopy(told, o) {
		e.metrics.count(kindVMIOfVM, resultSkipped)
		return
	}
	d := Delivery{
		Workflow: contract.VMID(vmi.Namespace, ref.Name), Signal: contract.SignalObserveVMI, UID: o.UID, Kind: kindVMIOfVM, Payload: o,
	}
	if vm, ok := get[*kubevirt.VirtualMachine](e.store.vms, vmi.Namespace+"/"+ref.Name); ok && vm.UID == ref.UID {
		d.Start = startVM(vmi.Namespace, ref.Name, string(ref.UID))
		e.toldCopy[o.UID] = o
	}
	e.outbox.Put(d)
}

// maker is the VM that an instance was made for which nobody controls any more, as long as that VM is to stay; or nil.
func (e *evaluator) maker(vmi *kubevirt.VirtualMachineInstance) *metav1.OwnerReference {
	if metav1.GetControllerOfNoCopy(vmi) != nil {
		return nil
	}
	vm, ok := get[*kubevirt.VirtualMachine](e.store.vms, vmi.Namespace+"/"+vmi.Name)
	if !ok || vm.DeletionTimestamp != nil || !observe.MadeFor(vmi, string(vm.UID)) {
		return nil
	}
	return &metav1.OwnerReference{Name: vm.Name, UID: vm.UID}
}

func (e *evaluator) vmiGone(vmi *kubevirt.VirtualMachineInstance) {
	e.mu.Lock()
	defer e.mu.Unlock()
	uid := string(vmi.UID)
	delete(e.toldVMI, uid)
	delete(e.toldCopy, uid)
	d := Delivery{
		Workflow: contract.VMIID(vmi.Namespace, vmi.Name), Signal: contract.SignalObserveVMI, UID: uid, Kind: kindVMI, Payload: observe.GoneVMI(uid),
	}
	e.outbox.Put(d)
	if name, ok := e.hears(vmi); ok {
		d.Workflow, d.Kind = contract.VMID(vmi.Namespace, name), kindVMIOfVM
		e.outbox.Put(d)
	}
	e.vmiGoneForSets(vmi)
}

// hears is the VM that is to hear of the end of a VMI: the one that controls it; or, where nobody does, one of its name, which may be waiting for
// an instance that was taken from it on its way out (kubectl delete vm --cascade=orphan).
func (e *evaluator) hears(vmi *kubevirt.VirtualMachineInstance) (name string, ok bool) {
	if ref := observe.OwnerVM(vmi); ref != nil {
		return ref.Name, true
	}
	if metav1.GetControllerOfNoCopy(vmi) != nil {
		return "", false
	}
	_, ok = get[*kubevirt.VirtualMachine](e.store.vms, vmi.Namespace+"/"+vmi.Name)
	return vmi.Name, ok
}

// pod tells a VMI of its launcher pod. First says that the VMI's entity may never have heard of the pod; else one that has just been made is
// what the entity knows already, having made it.
func (e *evaluator) pod(key string, first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	pod, ok := get[*corev1.Pod](e.store.pods, key)
	if !ok {
		return
	}
	ref := observe.Owner(pod)
	if ref == nil {
		return // somebody else's
	}
	defer e.stateOfNode(pod, first)
	o := observe.Pod(pod)
	told, known := e.toldPod[o.UID]
	if !known && !first {
		told, known = observe.NewPod(o), true
		e.toldPod[o.UID] = told
	}
	if known && !observe.SignificantPod(told, o) {
		e.metrics.count(kindPod, resultSkipped)
		return
	}
	e.toldPod[o.UID] = o
	e.outbox.Put(Delivery{
		Workflow: contract.VMIID(pod.Namespace, ref.Name), Signal: contract.SignalObservePod, UID: o.UID, Kind: kindPod, Payload: o,
		Start: startVMI(pod.Namespace, ref.Name, ref.UID),
	})
}

func (e *evaluator) podGone(pod *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ref := observe.Owner(pod)
	if ref == nil {
		return
	}
	uid := string(pod.UID)
	delete(e.toldPod, uid)
	delete(e.toldState, uid)
	e.outbox.Put(Delivery{
		Workflow: contract.VMIID(pod.Namespace, ref.Name), Signal: contract.SignalObservePod, UID: uid, Kind: kindPod,
		Payload: observe.GonePod(uid, pod.Name, ref.UID),
	})
}

func (e *evaluator) node(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	node, ok := get[*corev1.Node](e.store.nodes, name)
	if !ok {
		return
	}
	for _, pod := range e.store.launchersOn(name) {
		e.stateOfNode(pod, false)
	}
	version := e.store.workers.LastSyncResourceVersion() // of two with the same version the one that comes last counts
	o := observe.Node(node, e.store.workerReady(name))
	o.WorkerVersion = version
	if told, ok := e.toldNode[o.UID]; ok && observe.SameNode(told, o) {
		e.metrics.count(kindNode, resultSkipped)
		return
	}
	e.toldNode[o.UID] = o
	e.outbox.Put(Delivery{
		Workflow: contract.NodeID(name), Signal: contract.SignalObserveNode, UID: o.UID, Kind: kindNode, Payload: o, Start: startNode(name, o.UID),
	})
}

func (e *evaluator) nodeGone(node *corev1.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	uid := string(node.UID)
	delete(e.toldNode, uid)
	e.goneNode(node.Name, uid)
	e.outbox.Put(Delivery{
		Workflow: contract.NodeID(node.Name), Signal: contract.SignalObserveNode, UID: uid, Kind: kindNode, Payload: observe.GoneNode(uid),
	})
}

// forget makes the next evaluation of an object tell it again.
func (e *evaluator) forget(uid string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.toldVM, uid)
	delete(e.toldVMI, uid)
	delete(e.toldCopy, uid)
	delete(e.toldPod, uid)
	delete(e.toldNode, uid)
	delete(e.toldState, uid)
	e.forgetSet(uid)
}

func startVM(namespace, name, uid string) *Start {
	return &Start{
		Type: contract.WorkflowVM, Input: contract.EntityInput{Namespace: namespace, Name: name},
		Summary: "VirtualMachine " + namespace + "/" + name,
		Search:  map[string]string{contract.SearchNamespace: namespace, contract.SearchName: name, contract.SearchUID: uid},
	}
}

func startVMI(namespace, name, uid string) *Start {
	return &Start{
		Type: contract.WorkflowVMI, Input: contract.EntityInput{Namespace: namespace, Name: name},
		Summary: "VirtualMachineInstance " + namespace + "/" + name,
		Search:  map[string]string{contract.SearchNamespace: namespace, contract.SearchName: name, contract.SearchUID: uid},
	}
}

func startNode(name, uid string) *Start {
	return &Start{
		Type: contract.WorkflowNode, Input: contract.EntityInput{Name: name}, Summary: "Node " + name,
		Search: map[string]string{contract.SearchName: name, contract.SearchUID: uid, contract.SearchNode: name},
	}
}
