package diff

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/internal/observe"
)

// untyped is an entity without the types of its objects and observations.
type untyped interface {
	workflowType() string
	missing(running int) int
	sendAll(ctx context.Context) error
	sendVanishedObjects(ctx context.Context, s *sources, open map[string]openEntity) error
	startLostWorkflows(ctx context.Context, s *sources, open map[string]openEntity) error
}

const titleVMI = "VirtualMachineInstance"

// entities has the kinds of objects that have a workflow of their own.
type entities struct {
	vm        *entity[*kubevirt.VirtualMachine, contract.VMObservation]
	vmi       *entity[*kubevirt.VirtualMachineInstance, contract.VMIObservation]
	set       *entity[*kubevirt.VirtualMachineInstanceReplicaSet, contract.ReplicaSetObservation]
	node      *entity[*corev1.Node, contract.NodeObservation]
	migration *entity[*kubevirt.VirtualMachineInstanceMigration, contract.MigrationObservation]
	// queue and update have no kind of object: there is one workflow of each.
	queue  migrationQueue
	update workloadUpdate
}

// each returns the kinds of entities without their types, first the queue, because what it admits depends on the
// migrations that it knows.
func (e entities) each() []untyped {
	return []untyped{e.queue, e.vm, e.set, e.vmi, e.node, e.migration, e.update}
}

// workflowTypes returns the types of the entities' workflows.
func (e entities) workflowTypes() []string {
	return []string{e.vm.workflow, e.vmi.workflow, e.set.workflow, e.node.workflow, e.migration.workflow,
		contract.WorkflowAdmission, contract.WorkflowWorkloadUpdate}
}

// newEntities returns the description of every kind of object that has a workflow.
func newEntities(r *record, o *others) entities {
	i := r.informers
	return entities{
		queue: o.queue, update: o.update,
		vm: &entity[*kubevirt.VirtualMachine, contract.VMObservation]{
			record: r,
			kind: kind[contract.VMObservation]{name: delivery.KindVM, signal: contract.SignalObserveVM,
				same: observe.SameVM},
			workflow: contract.WorkflowVM, title: "VirtualMachine", id: contract.VMID,
			informer: i.VMs, observe: i.ObserveVM, gone: observe.GoneVM,
			isRequest: isVMRequest,
			related: related[*kubevirt.VirtualMachine, contract.VMObservation]{
				sendToOthers: o.sendVM, forgetSent: o.copies.forgetInstanceOf,
			},
			read: func(ctx context.Context, c Clients, namespace, name string) (*kubevirt.VirtualMachine, error) {
				return c.KubeVirt.VMs(namespace).Get(ctx, name, metav1.GetOptions{})
			},
			named: func(m metav1.ObjectMeta) *kubevirt.VirtualMachine {
				return &kubevirt.VirtualMachine{ObjectMeta: m}
			},
		},
		vmi: &entity[*kubevirt.VirtualMachineInstance, contract.VMIObservation]{
			record: r,
			kind: kind[contract.VMIObservation]{name: delivery.KindVMI, signal: contract.SignalObserveVMI,
				same: observe.SameVMI},
			workflow: contract.WorkflowVMI, title: titleVMI, id: contract.VMIID,
			informer: i.VMIs, observe: i.ObserveVMI, gone: observe.GoneVMI,
			isRequest: isVMIRequest,
			related: related[*kubevirt.VirtualMachineInstance, contract.VMIObservation]{
				sendToOthers: o.sendVMI, sendGoneToOthers: o.sendVMIGone, forgetSent: o.pods.forgetOf,
			},
			read: func(
				ctx context.Context, c Clients, namespace, name string,
			) (*kubevirt.VirtualMachineInstance, error) {
				return c.KubeVirt.VMIs(namespace).Get(ctx, name, metav1.GetOptions{})
			},
			named: func(m metav1.ObjectMeta) *kubevirt.VirtualMachineInstance {
				return &kubevirt.VirtualMachineInstance{ObjectMeta: m}
			},
		},
		set: &entity[*kubevirt.VirtualMachineInstanceReplicaSet, contract.ReplicaSetObservation]{
			record: r,
			kind: kind[contract.ReplicaSetObservation]{
				name: delivery.KindReplicaSet, signal: contract.SignalObserveReplicaSet, same: observe.SameReplicaSet,
			},
			workflow: contract.WorkflowReplicaSet, title: "VirtualMachineInstanceReplicaSet", id: contract.ReplicaSetID,
			informer: i.ReplicaSets, observe: observe.ReplicaSet, gone: observe.GoneReplicaSet,
			related: related[*kubevirt.VirtualMachineInstanceReplicaSet, contract.ReplicaSetObservation]{
				sendToOthers: o.replicas.sendAllTo, sendGoneToOthers: o.sendSetGone, forgetSent: o.replicas.forgetOf,
			},
			read: func(
				ctx context.Context, c Clients, namespace, name string,
			) (*kubevirt.VirtualMachineInstanceReplicaSet, error) {
				return c.KubeVirt.ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{})
			},
			named: func(m metav1.ObjectMeta) *kubevirt.VirtualMachineInstanceReplicaSet {
				return &kubevirt.VirtualMachineInstanceReplicaSet{ObjectMeta: m}
			},
		},
		node: &entity[*corev1.Node, contract.NodeObservation]{
			record: r,
			kind: kind[contract.NodeObservation]{name: delivery.KindNode, signal: contract.SignalObserveNode,
				same: observe.SameNode},
			workflow: contract.WorkflowNode, title: "Node", id: func(_, name string) string {
				return contract.NodeID(name)
			},
			informer: i.Nodes, observe: i.ObserveNode, gone: observe.GoneNode,
			isRepeatDue: nodeRepeats{}.isDue,
			related: related[*corev1.Node, contract.NodeObservation]{
				sendToOthers: o.sendNode, sendGoneToOthers: o.sendNodeGone, forgetSent: o.evacuees.forgetOf,
			},
			read: func(ctx context.Context, c Clients, _, name string) (*corev1.Node, error) {
				return c.Kubernetes.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			},
			named: func(m metav1.ObjectMeta) *corev1.Node { return &corev1.Node{ObjectMeta: m} },
		},
		migration: &entity[*kubevirt.VirtualMachineInstanceMigration, contract.MigrationObservation]{
			record: r,
			kind: kind[contract.MigrationObservation]{name: delivery.KindMigration,
				signal: contract.SignalObserveMigration, same: observe.SameMigration},
			workflow: contract.WorkflowMigration, title: "VirtualMachineInstanceMigration", id: contract.MigrationID,
			informer: i.Migrations, isClosed: observe.ClosedMigration, observe: observe.Migration,
			gone: observe.GoneMigration,
			related: related[*kubevirt.VirtualMachineInstanceMigration, contract.MigrationObservation]{
				sendToOthers: o.sendMigration, sendGoneToOthers: o.sendMigrationGone,
				forgetSent: o.migrationPods.forgetOf,
			},
			read: func(
				ctx context.Context, c Clients, namespace, name string,
			) (*kubevirt.VirtualMachineInstanceMigration, error) {
				return c.KubeVirt.Migrations(namespace).Get(ctx, name, metav1.GetOptions{})
			},
			named: func(m metav1.ObjectMeta) *kubevirt.VirtualMachineInstanceMigration {
				return &kubevirt.VirtualMachineInstanceMigration{ObjectMeta: m}
			},
		},
	}
}
