package crdwatch

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// kind is one kind of observation.
type kind[O any] struct {
	name   string // in metrics and logs
	signal string
	// same says that an observation is not worth sending after the one that was sent last.
	same func(last, now O) bool
}

// Kinds of observations that are made for another workflow than that of the observed object.
func copyKind() kind[contract.VMIObservation] {
	return kind[contract.VMIObservation]{name: "vmi-for-vm", signal: contract.SignalObserveVMI, same: observe.SameCopy}
}

func replicaKind() kind[contract.ReplicaObservation] {
	return kind[contract.ReplicaObservation]{name: "vmi-for-replicaset", signal: contract.SignalObserveReplicas,
		same: observe.SameReplica}
}

func queuedKind() kind[contract.QueuedMigration] {
	return kind[contract.QueuedMigration]{name: "migration-for-queue", signal: contract.SignalObserveMigration,
		same: observe.SameQueued}
}

func podKind() kind[contract.PodObservation] {
	return kind[contract.PodObservation]{
		name: "pod", signal: contract.SignalObservePod,
		same: func(last, now contract.PodObservation) bool { return !observe.SignificantPod(last, now) },
	}
}

func nodeStateKind() kind[contract.NodeState] {
	return kind[contract.NodeState]{name: "node-for-vmi", signal: contract.SignalObserveNode,
		same: observe.SameNodeState}
}

// migrationPodKind and migrationNodeKind are podKind and nodeStateKind for migrations.
func migrationPodKind() kind[contract.PodObservation] {
	k := podKind()
	k.name = "pod-for-migration"
	return k
}

func migrationNodeKind() kind[contract.NodeState] {
	k := nodeStateKind()
	k.name = "node-for-migration"
	return k
}

// entity describes the objects of one kind that have a workflow of their own.
type entity[T metav1.Object, O any] struct {
	kind[O]
	workflow string // its type
	title    string // what Kubernetes calls the kind
	id       func(namespace, name string) string
	informer cache.SharedIndexInformer
	// closed says of an object that it needs no workflow any more; nil: all need theirs as long as they exist.
	closed  func(T) bool
	observe func(T) O
	gone    func(uid string) O
	// goneHold is how long word that an object is gone may wait: a workflow that has removed the last finalizer has
	// completed by then, and needs none.
	goneHold time.Duration
	// asks says that a change asks something of a workflow that runs: that is sent no faster than control workers take
	// it in; nil: everything is sent at once. New objects are: their workflows wait for their turn in Temporal.
	asks func(last, now O) bool
	// also sends what a change says to other workflows than the object's own; and to that, if the object was not known,
	// what others say to it. Known says that last was sent before.
	also func(d *differ, object T, last O, known bool, from origin)
	// alsoGone sends to others that an object is gone.
	alsoGone func(d *differ, object T, from origin)
	// forget drops what was sent of other objects to its workflow.
	forget func(d *differ, object T)
	// read asks the API server for an object.
	read func(ctx context.Context, c apiServer, namespace, name string) (T, error)
	// named makes an object of which no more is known.
	named func(metav1.ObjectMeta) T
}

// apiServer is how objects are read that informers may not show yet, or any more.
type apiServer struct {
	kubernetes kubernetes.Interface
	kubevirt   *kube.Client
}

// entities are the kinds of objects that have a workflow of their own.
type entities struct {
	vm   *entity[*kubevirt.VirtualMachine, contract.VMObservation]
	vmi  *entity[*kubevirt.VirtualMachineInstance, contract.VMIObservation]
	set  *entity[*kubevirt.VirtualMachineInstanceReplicaSet, contract.ReplicaSetObservation]
	node *entity[*corev1.Node, contract.NodeObservation]
	move *entity[*kubevirt.VirtualMachineInstanceMigration, contract.MigrationObservation]
	// queue and update are of no kind of object: there is one workflow each.
	queue  queueEntity
	update updateEntity
}

// each lists them without their types, first the queue: what it admits rests on what it has heard of by then.
func (e entities) each() []untyped {
	return []untyped{e.queue, e.vm, e.set, e.vmi, e.node, e.move, e.update}
}

// workflowTypes are those of the entities' workflows.
func (e entities) workflowTypes() []string {
	return []string{e.vm.workflow, e.vmi.workflow, e.set.workflow, e.node.workflow, e.move.workflow,
		contract.WorkflowAdmission, contract.WorkflowWorkloadUpdate}
}

func describe(i *Informers) entities {
	return entities{
		queue:  queueEntity{i},
		update: updateEntity{i},
		vm: &entity[*kubevirt.VirtualMachine, contract.VMObservation]{
			kind:     kind[contract.VMObservation]{name: "vm", signal: contract.SignalObserveVM, same: observe.SameVM},
			workflow: contract.WorkflowVM, title: "VirtualMachine", id: contract.VMID,
			informer: i.VMs, observe: i.observeVM, gone: observe.GoneVM, goneHold: endHold,
			asks: asksOfVM,
			also: func(d *differ, vm *kubevirt.VirtualMachine, _ contract.VMObservation, known bool, from origin) {
				if !known {
					d.instanceOf(vm, from)
				}
			},
			forget: (*differ).forgetInstanceOf,
			read: func(ctx context.Context, c apiServer, namespace, name string) (*kubevirt.VirtualMachine, error) {
				return c.kubevirt.VMs(namespace).Get(ctx, name, metav1.GetOptions{})
			},
			named: func(m metav1.ObjectMeta) *kubevirt.VirtualMachine {
				return &kubevirt.VirtualMachine{ObjectMeta: m}
			},
		},
		vmi: &entity[*kubevirt.VirtualMachineInstance, contract.VMIObservation]{
			kind: kind[contract.VMIObservation]{name: "vmi", signal: contract.SignalObserveVMI,
				same: observe.SameVMI},
			workflow: contract.WorkflowVMI, title: "VirtualMachineInstance", id: contract.VMIID,
			informer: i.VMIs, observe: i.observeVMI, gone: observe.GoneVMI, goneHold: endHold,
			asks: asksOfVMI,
			also: func(d *differ, vmi *kubevirt.VirtualMachineInstance, _ contract.VMIObservation, known bool,
				from origin) {
				if !known {
					d.podsOf(vmi)
				}
				d.vmiForVM(vmi, from)
				d.vmiForSets(vmi, from)
				d.vmiForNodes(vmi, from)
				d.outdatedChanged(from)
			},
			alsoGone: func(d *differ, vmi *kubevirt.VirtualMachineInstance, from origin) {
				d.vmiGoneForVM(vmi, from)
				d.vmiGoneForSets(vmi, from)
				d.vmiGoneForNodes(vmi, from)
				d.outdatedChanged(from)
			},
			forget: (*differ).forgetPodsOf,
			read: func(
				ctx context.Context, c apiServer, namespace, name string,
			) (*kubevirt.VirtualMachineInstance, error) {
				return c.kubevirt.VMIs(namespace).Get(ctx, name, metav1.GetOptions{})
			},
			named: func(m metav1.ObjectMeta) *kubevirt.VirtualMachineInstance {
				return &kubevirt.VirtualMachineInstance{ObjectMeta: m}
			},
		},
		set: &entity[*kubevirt.VirtualMachineInstanceReplicaSet, contract.ReplicaSetObservation]{
			kind: kind[contract.ReplicaSetObservation]{
				name: "replicaset", signal: contract.SignalObserveReplicaSet, same: observe.SameReplicaSet,
			},
			workflow: contract.WorkflowReplicaSet, title: "VirtualMachineInstanceReplicaSet", id: contract.ReplicaSetID,
			informer: i.ReplicaSets, observe: observe.ReplicaSet, gone: observe.GoneReplicaSet,
			also: (*differ).replicasOf,
			alsoGone: func(d *differ, set *kubevirt.VirtualMachineInstanceReplicaSet, _ origin) {
				d.forgetReplicasOf(set)
			},
			forget: (*differ).forgetReplicasOf,
			read: func(
				ctx context.Context, c apiServer, namespace, name string,
			) (*kubevirt.VirtualMachineInstanceReplicaSet, error) {
				return c.kubevirt.ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{})
			},
			named: func(m metav1.ObjectMeta) *kubevirt.VirtualMachineInstanceReplicaSet {
				return &kubevirt.VirtualMachineInstanceReplicaSet{ObjectMeta: m}
			},
		},
		node: &entity[*corev1.Node, contract.NodeObservation]{
			kind: kind[contract.NodeObservation]{name: "node", signal: contract.SignalObserveNode,
				same: observe.SameNode},
			workflow: contract.WorkflowNode, title: "Node", id: func(_, name string) string {
				return contract.NodeID(name)
			},
			informer: i.Nodes, observe: i.observeNode, gone: observe.GoneNode,
			also: (*differ).besideNode,
			alsoGone: func(d *differ, node *corev1.Node, from origin) {
				d.nodeGoneForVMIs(node.Name, string(node.UID), from)
			},
			forget: (*differ).forgetEvacueesOn,
			read: func(ctx context.Context, c apiServer, _, name string) (*corev1.Node, error) {
				return c.kubernetes.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			},
			named: func(m metav1.ObjectMeta) *corev1.Node { return &corev1.Node{ObjectMeta: m} },
		},
		move: &entity[*kubevirt.VirtualMachineInstanceMigration, contract.MigrationObservation]{
			kind: kind[contract.MigrationObservation]{name: "migration", signal: contract.SignalObserveMigration,
				same: observe.SameMigration},
			workflow: contract.WorkflowMigration, title: "VirtualMachineInstanceMigration", id: contract.MigrationID,
			informer: i.Migrations, closed: observe.ClosedMigration, observe: observe.Migration,
			gone: observe.GoneMigration,
			also: (*differ).besideMigration, alsoGone: (*differ).besideMigrationGone,
			forget: (*differ).forgetPodsOfMigration,
			read: func(
				ctx context.Context, c apiServer, namespace, name string,
			) (*kubevirt.VirtualMachineInstanceMigration, error) {
				return c.kubevirt.Migrations(namespace).Get(ctx, name, metav1.GetOptions{})
			},
			named: func(m metav1.ObjectMeta) *kubevirt.VirtualMachineInstanceMigration {
				return &kubevirt.VirtualMachineInstanceMigration{ObjectMeta: m}
			},
		},
	}
}

// start is how the workflow of an object is started.
func (e *entity[T, O]) start(namespace, name, uid string) *Start {
	s := &Start{
		Type: e.workflow, Input: contract.EntityInput{Namespace: namespace, Name: name},
		Summary: e.title + " " + cache.NewObjectName(namespace, name).String(),
		Search: map[string]string{contract.SearchNamespace: namespace, contract.SearchName: name,
			contract.SearchUID: uid},
	}
	if e.workflow == contract.WorkflowNode {
		s.Search[contract.SearchNode] = name
	}
	return s
}
