package crdwatch

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// WorkerSelector finds the pods of node workers in virtflow's own namespace.
const WorkerSelector = "app.kubernetes.io/name=virtflow-node-worker"

// Indexes of the informers.
const (
	byNode  = "node"  // pods, of node workers and of launchers, by the node they are on
	byOwner = "owner" // launcher pods by the UID of their VMI
	byVMI   = "vmi"   // launcher pods and migrations by the namespace and name of their VMI
	byEnd   = "end"   // migrations that have not ended: all under one value, unended

	byEvacuation = "evacuation" // instances by the node that they are asked to leave
	byImage      = "image"      // instances that have not ended by the image of their launcher
	byClaim      = "claim"      // instances by the namespaces and names of their claims
	byTemplate   = "template"   // VMs by the namespaces and names of the DataVolumes of their templates
)

// unended is the value of byEnd for migrations that have not ended.
const unended = "not ended"

// Informers keep what the API server says, without what no observation is made from.
type Informers struct {
	VMs, VMIs, ReplicaSets, Migrations cache.SharedIndexInformer
	// Pods are launcher pods, Workers the pods of node workers.
	Pods, Nodes, Workers cache.SharedIndexInformer
	// Claims are PersistentVolumeClaims, whoever uses them.
	Claims cache.SharedIndexInformer
	// DataVolumes are those of CDI, whoever uses them; there are none where it is not installed.
	DataVolumes cache.SharedIndexInformer
	// image is the one that new launchers get; "": nobody's launcher is outdated.
	image string
}

// NewInformers prepares them; nothing is contacted before they run. Namespace is virtflow's own, and image the one that
// new launchers get.
func NewInformers(clients kubernetes.Interface, kv *kube.Client, namespace, image string) (*Informers, error) {
	launchers := informers.NewSharedInformerFactoryWithOptions(clients, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = contract.LabelLauncher + "=" + contract.LabelLauncherValue
		}))
	workers := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = WorkerSelector }))
	custom := func(resource string, object runtime.Object) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(kv.ListWatch(resource, "", ""), object, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	everything := informers.NewSharedInformerFactory(clients, 0).Core().V1()
	i := &Informers{
		image:       image,
		VMs:         custom(kube.ResourceVM, &kubevirt.VirtualMachine{}),
		VMIs:        custom(kube.ResourceVMI, &kubevirt.VirtualMachineInstance{}),
		ReplicaSets: custom(kube.ResourceVMIRS, &kubevirt.VirtualMachineInstanceReplicaSet{}),
		Migrations:  custom(kube.ResourceVMIM, &kubevirt.VirtualMachineInstanceMigration{}),
		Pods:        launchers.Core().V1().Pods().Informer(),
		Nodes:       everything.Nodes().Informer(),
		Claims:      everything.PersistentVolumeClaims().Informer(),
		Workers:     workers.Core().V1().Pods().Informer(),
		DataVolumes: cache.NewSharedIndexInformer(kv.DataVolumesListWatch(), &cdi.DataVolume{}, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
	}
	for _, informer := range i.each() {
		if err := informer.SetTransform(Strip); err != nil {
			return nil, fmt.Errorf("preparing an informer: %w", err)
		}
	}
	for informer, indexers := range map[cache.SharedIndexInformer]cache.Indexers{
		i.Workers:    {byNode: nodeOf},
		i.Pods:       {byNode: nodeOf, byOwner: ownerOf, byVMI: vmiOf},
		i.Migrations: {byVMI: vmiOf, byEnd: endOf},
		i.VMs:        {byTemplate: templatesOf},
		i.VMIs:       {byEvacuation: evacueeOf, byImage: imageOf, byClaim: claimsOf},
	} {
		if err := informer.AddIndexers(indexers); err != nil {
			return nil, fmt.Errorf("preparing an index: %w", err)
		}
	}
	return i, nil
}

// ownerOf indexes launcher pods by the UID of their VMI.
func ownerOf(o any) ([]string, error) {
	if pod, ok := o.(*corev1.Pod); ok {
		if ref := observe.Owner(pod); ref != nil {
			return []string{ref.UID}, nil
		}
	}
	return nil, nil
}

// vmiOf indexes launcher pods and migrations by the namespace and name of their VMI.
func vmiOf(o any) ([]string, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		if ref := observe.Owner(o); ref != nil {
			return []string{o.Namespace + "/" + ref.Name}, nil
		}
	case *kubevirt.VirtualMachineInstanceMigration:
		return []string{o.Namespace + "/" + o.Spec.VMIName}, nil
	}
	return nil, nil
}

// endOf indexes the migrations that have not ended.
func endOf(o any) ([]string, error) {
	if vmim, ok := o.(*kubevirt.VirtualMachineInstanceMigration); ok && !vmim.IsFinal() {
		return []string{unended}, nil
	}
	return nil, nil
}

// nodeOf indexes pods by the node that they are on.
func nodeOf(o any) ([]string, error) {
	if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

func (i *Informers) each() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{i.VMs, i.VMIs, i.ReplicaSets, i.Migrations, i.Pods, i.Nodes, i.Workers,
		i.Claims, i.DataVolumes}
}

func (i *Informers) run(ctx context.Context) {
	for _, informer := range i.each() {
		go informer.RunWithContext(ctx)
	}
}

func (i *Informers) synced() bool {
	for _, informer := range i.each() {
		if !informer.HasSynced() {
			return false
		}
	}
	return true
}

// get reads one object of an informer.
func get[T any](i cache.SharedIndexInformer, key string) (T, bool) {
	var none T
	o, ok, err := i.GetStore().GetByKey(key)
	if err != nil || !ok {
		return none, false
	}
	t, ok := o.(T)
	return t, ok
}

// list reads all objects of an informer.
func list[T any](i cache.SharedIndexInformer) []T {
	var out []T
	for _, o := range i.GetStore().List() {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

func (i *Informers) workerReady(node string) bool {
	return slices.ContainsFunc(indexed[*corev1.Pod](i.Workers, byNode, node), observe.WorkerReady)
}

// podsOf lists the launcher pods that were made for a VMI, by the VMI's UID.
func (i *Informers) podsOf(uid string) []*corev1.Pod {
	return indexed[*corev1.Pod](i.Pods, byOwner, uid)
}

// hasOwner says that the VMI which a launcher pod was made for is there.
func (i *Informers) hasOwner(pod *corev1.Pod, ref *contract.Object) bool {
	vmi, ok := get[*kubevirt.VirtualMachineInstance](i.VMIs, pod.Namespace+"/"+ref.Name)
	return ok && string(vmi.UID) == ref.UID
}

// ownerGoes says that the VMI of a pod is being deleted.
func (i *Informers) ownerGoes(pod *corev1.Pod, ref *contract.Object) bool {
	vmi, ok := get[*kubevirt.VirtualMachineInstance](i.VMIs, pod.Namespace+"/"+ref.Name)
	return ok && string(vmi.UID) == ref.UID && vmi.DeletionTimestamp != nil
}

// launchersOn lists the launcher pods that are on a node.
func (i *Informers) launchersOn(node string) []*corev1.Pod {
	pods := indexed[*corev1.Pod](i.Pods, byNode, node)
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return observe.Owner(pod) == nil })
}

// indexed reads the objects of an informer that have a value in one of its indexes.
func indexed[T any](i cache.SharedIndexInformer, index, value string) []T {
	objects, err := i.GetIndexer().ByIndex(index, value)
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
