package diff

import (
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/observe"
)

// others sends what changes of an object to the workflows of other objects. It is the one place that knows which
// observations follow from which object; those send nothing of each other.
type others struct {
	copies        copies
	pods          pods
	migrationPods migrationPods
	nodeStates    nodeStates
	replicas      replicas
	evacuees      evacuees
	queue         migrationQueue
	update        workloadUpdate
}

func newOthers(r *record) *others {
	return &others{copies: copies{r}, pods: pods{r}, migrationPods: migrationPods{r}, nodeStates: nodeStates{r},
		replicas: replicas{r}, evacuees: evacuees{r}, queue: migrationQueue{r}, update: workloadUpdate{r}}
}

// sendVM sends a VM that was not known its instance, which may have been seen before it.
func (o *others) sendVM(vm *kubevirt.VirtualMachine, _ contract.VMObservation, known bool, from delivery.Cause) {
	if !known {
		o.copies.sendInstanceOf(vm, from)
	}
}

// sendVMI sends an instance to its VM, to replica sets, to the node that it has to leave, and to the workload update.
// An instance that was not known gets all its launcher pods, with their nodes. A new one has none.
func (o *others) sendVMI(
	vmi *kubevirt.VirtualMachineInstance, _ contract.VMIObservation, known bool, from delivery.Cause,
) {
	if !known {
		for _, pod := range o.pods.informers.PodsOf(string(vmi.UID)) {
			o.sendPod(pod, resync)
		}
	}
	o.copies.send(vmi, from)
	o.replicas.send(vmi, from)
	o.evacuees.send(vmi, from)
	o.update.sendIfChanged(from)
}

func (o *others) sendVMIGone(vmi *kubevirt.VirtualMachineInstance, from delivery.Cause) {
	o.copies.sendGone(vmi, from)
	o.replicas.sendGone(vmi, from)
	o.evacuees.sendGone(vmi, from)
	o.update.sendIfChanged(from)
}

func (o *others) sendSetGone(set *kubevirt.VirtualMachineInstanceReplicaSet, _ delivery.Cause) {
	o.replicas.forgetOf(set)
}

// sendNode sends the state of a node to the VMIs whose pods are there, and to a node that was not known how many
// instances have to leave it.
func (o *others) sendNode(node *corev1.Node, _ contract.NodeObservation, known bool, from delivery.Cause) {
	if !known {
		o.evacuees.sendToNew(node)
	}
	o.nodeStates.send(node, from)
}

func (o *others) sendNodeGone(node *corev1.Node, from delivery.Cause) {
	o.nodeStates.sendGone(node.Name, string(node.UID), from)
}

// sendMigration sends a migration to the migration queue. If the migration was not known, it also sends it the launcher
// pods of its VMI, with their nodes.
func (o *others) sendMigration(
	vmim *kubevirt.VirtualMachineInstanceMigration, _ contract.MigrationObservation, known bool, from delivery.Cause,
) {
	o.queue.send(vmim, from)
	switch {
	case observe.ClosedMigration(vmim):
		o.migrationPods.forgetOf(vmim)
	case !known:
		for _, pod := range o.pods.informers.PodsOfVMI(vmim.Namespace, vmim.Spec.VMIName) {
			o.migrationPods.sendTo(watch.MigrationObject(vmim), observe.Pod(pod), from)
			o.nodeStates.sendOf(pod, from)
		}
	}
}

func (o *others) sendMigrationGone(vmim *kubevirt.VirtualMachineInstanceMigration, from delivery.Cause) {
	o.migrationPods.forgetOf(vmim)
	o.queue.sendGone(vmim, from)
}

// sendPod sends a launcher pod to its VMI and to migrations, and them its node.
func (o *others) sendPod(pod *corev1.Pod, from delivery.Cause) {
	ref := observe.Owner(pod)
	if ref == nil {
		return // it has another owner than a VMI
	}
	o.pods.send(pod, ref, from)
	o.migrationPods.send(pod, from)
	o.nodeStates.sendOf(pod, from)
}

func (o *others) sendPodGone(pod *corev1.Pod, from delivery.Cause) {
	if ref := observe.Owner(pod); ref != nil {
		o.pods.sendGone(pod, ref, from)
		o.migrationPods.sendGone(pod, ref, from)
	}
}
