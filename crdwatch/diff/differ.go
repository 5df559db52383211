package diff

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/watch"
)

// Differ compares what the informers hold with what was sent last, and queues what is worth sending. It reads the
// informers' stores, not their events. Its record lasts as long as one leadership, so that a new leader sends
// everything once.
type Differ struct {
	*record
	others   *others
	entities entities
	// settings are those that sendSettings has last compared with what was sent; only the informer calls it.
	settings *watch.NodeSettings
	// settingsChanged triggers sendUnchanged.
	settingsChanged chan struct{}
}

// New returns a differ that has sent nothing yet.
func New(i *watch.Informers, q Queue, m *delivery.Metrics) *Differ {
	r := newRecord(i, q, m)
	o := newOthers(r)
	return &Differ{record: r, others: o, entities: newEntities(r, o), settingsChanged: make(chan struct{}, 1)}
}

// WorkflowTypes returns the types of the workflows that are sent observations.
func (d *Differ) WorkflowTypes() []string { return d.entities.workflowTypes() }

// Subscribe hands the events of informers to the differ of the leader. While another process leads, it drops them.
func Subscribe(i *watch.Informers, leading func() *Differ) error {
	worker := func(d *Differ, worker *corev1.Pod) { d.entities.node.sendChanged(worker.Spec.NodeName, change) }
	err := errors.Join(
		subscribeEntity(i.VMs, leading, func(d *Differ) *entity[*kubevirt.VirtualMachine, contract.VMObservation] {
			return d.entities.vm
		}),
		subscribeEntity(i.ReplicaSets, leading,
			func(d *Differ) *entity[*kubevirt.VirtualMachineInstanceReplicaSet, contract.ReplicaSetObservation] {
				return d.entities.set
			}),
		subscribeEntity(i.VMIs, leading,
			func(d *Differ) *entity[*kubevirt.VirtualMachineInstance, contract.VMIObservation] {
				return d.entities.vmi
			}),
		subscribeEntity(i.Nodes, leading, func(d *Differ) *entity[*corev1.Node, contract.NodeObservation] {
			return d.entities.node
		}),
		subscribeEntity(i.Migrations, leading,
			func(d *Differ) *entity[*kubevirt.VirtualMachineInstanceMigration, contract.MigrationObservation] {
				return d.entities.migration
			}),
		subscribe(i.Pods, leading,
			func(d *Differ, pod *corev1.Pod) { d.sendPod(cache.MetaObjectToName(pod).String(), change) },
			func(d *Differ, pod *corev1.Pod) { d.sendPodGone(pod, change) }),
		subscribe(i.Workers, leading, worker, worker),
		subscribe(i.PVCs, leading, (*Differ).sendPVC, (*Differ).sendPVC),
		subscribe(i.DataVolumes, leading, (*Differ).sendDataVolume, (*Differ).sendDataVolume),
		subscribe(i.Settings, leading, (*Differ).sendSettings, (*Differ).sendSettings),
	)
	if err != nil {
		return fmt.Errorf("subscribing to an informer: %w", err)
	}
	return nil
}

// subscribeEntity hands the events of an informer to the leader's entity for its objects.
func subscribeEntity[T metav1.Object, O any](
	informer cache.SharedIndexInformer, leading func() *Differ, of func(*Differ) *entity[T, O],
) error {
	return subscribe(informer, leading,
		func(d *Differ, o T) { of(d).sendChanged(cache.MetaObjectToName(o).String(), change) },
		func(d *Differ, o T) { of(d).sendGone(o, change) })
}

// subscribe calls changed and gone for the events of one informer. An update from one UID to another means that the
// object was deleted in between.
func subscribe[T metav1.Object](
	informer cache.SharedIndexInformer, leading func() *Differ, changed, gone func(*Differ, T),
) error {
	hand := func(to func(*Differ, T), o any) {
		if t, ok := o.(T); ok {
			if d := leading(); d != nil {
				to(d, t)
			}
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { hand(changed, o) },
		UpdateFunc: func(before, after any) {
			a, okA := before.(T)
			b, okB := after.(T)
			if okA && okB && a.GetUID() != b.GetUID() {
				hand(gone, before)
			}
			hand(changed, after)
		},
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			hand(gone, o)
		},
	})
	return err
}

// sendPod sends the current state of a launcher pod to its VMI, and to migrations.
func (d *Differ) sendPod(key string, from delivery.Cause) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if pod, ok := watch.Get[*corev1.Pod](d.informers.Pods, key); ok {
		d.others.sendPod(pod, from)
	}
}

func (d *Differ) sendPodGone(pod *corev1.Pod, from delivery.Cause) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.others.sendPodGone(pod, from)
}

// redeliverPod sends a launcher pod as to a workflow that knows nothing.
func (d *Differ) redeliverPod(pod *corev1.Pod) {
	d.mu.Lock()
	d.others.pods.forget(string(pod.UID))
	d.mu.Unlock()
	d.sendPod(cache.MetaObjectToName(pod).String(), resync)
}

// sendNodeMissing sends that the API server has no node of that name, although pods are on it.
func (d *Differ) sendNodeMissing(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, there := watch.Get[*corev1.Node](d.informers.Nodes, name); !there {
		d.others.nodeStates.sendGone(name, "", resync)
	}
}

// sendPVC sends a PVC, or that it is gone, to the instances that use it, and to the VMs whose templates create it.
func (d *Differ) sendPVC(pvc *corev1.PersistentVolumeClaim) {
	d.sendVolume(cache.MetaObjectToName(pvc).String())
}

// sendDataVolume does the same for a DataVolume, whose PVC has its name.
func (d *Differ) sendDataVolume(dv *cdi.DataVolume) {
	d.sendVolume(cache.MetaObjectToName(dv).String())
}

func (d *Differ) sendVolume(key string) {
	for _, vmi := range d.informers.VMIsWithPVC(key) {
		d.entities.vmi.sendChanged(cache.MetaObjectToName(vmi).String(), change)
	}
	for _, vm := range d.informers.VMsWithTemplate(key) {
		d.entities.vm.sendChanged(cache.MetaObjectToName(vm).String(), change)
	}
}
