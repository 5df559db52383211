package watch

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/settings"
)

// WorkerSelector selects the pods of node workers in virtflow's own namespace.
const WorkerSelector = "app.kubernetes.io/name=virtflow-node-worker"

// Informers keep those parts of the objects from which observations are made.
type Informers struct {
	VMs, VMIs, ReplicaSets, Migrations cache.SharedIndexInformer
	// Pods has launcher pods, Workers the pods of node workers.
	Pods, Nodes, Workers cache.SharedIndexInformer
	// PVCs has all PersistentVolumeClaims, of any user.
	PVCs cache.SharedIndexInformer
	// DataVolumes has all of CDI's, of any user; none if CDI is not installed.
	DataVolumes cache.SharedIndexInformer
	// Settings has the KubeVirt object.
	Settings cache.SharedIndexInformer
	absence  absence
	// Image is the one that new launchers get; "": no launcher is outdated.
	Image string

	settingsKey string // of the KubeVirt object
}

// NewInformers returns informers, and contacts nothing before they run. Namespace is virtflow's own, and image the one
// that new launchers get.
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
		Image:       image,
		settingsKey: namespace + "/" + settings.ObjectName,
		VMs:         custom(kube.ResourceVM, &kubevirt.VirtualMachine{}),
		VMIs:        custom(kube.ResourceVMI, &kubevirt.VirtualMachineInstance{}),
		ReplicaSets: custom(kube.ResourceVMIRS, &kubevirt.VirtualMachineInstanceReplicaSet{}),
		Migrations:  custom(kube.ResourceVMIM, &kubevirt.VirtualMachineInstanceMigration{}),
		Pods:        launchers.Core().V1().Pods().Informer(),
		Nodes:       everything.Nodes().Informer(),
		PVCs:        everything.PersistentVolumeClaims().Informer(),
		Workers:     workers.Core().V1().Pods().Informer(),
		DataVolumes: cache.NewSharedIndexInformer(kv.DataVolumesListWatch(), &cdi.DataVolume{}, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
		Settings: cache.NewSharedIndexInformer(kv.ListWatch(kube.ResourceKubeVirt, namespace, settings.ObjectName),
			&kubevirt.KubeVirt{}, 0, nil),
	}
	for _, informer := range i.All() {
		if err := informer.SetTransform(Strip); err != nil {
			return nil, fmt.Errorf("preparing an informer: %w", err)
		}
	}
	for informer, indexers := range map[cache.SharedIndexInformer]cache.Indexers{
		i.Workers:    {byNode: nodeOf},
		i.Pods:       {byNode: nodeOf, byOwner: ownerOf, byVMI: vmiOf},
		i.Migrations: {byVMI: vmiOf, byEnd: endOf},
		i.VMs:        {byTemplate: templatesOf},
		i.VMIs:       {byEvacuation: evacueeOf, byImage: imageOf, byPVC: pvcsOf},
	} {
		if err := informer.AddIndexers(indexers); err != nil {
			return nil, fmt.Errorf("preparing an index: %w", err)
		}
	}
	return i, nil
}

// All returns the informers.
func (i *Informers) All() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{i.VMs, i.VMIs, i.ReplicaSets, i.Migrations, i.Pods, i.Nodes, i.Workers,
		i.PVCs, i.DataVolumes, i.Settings}
}

// Run fills the informers, and keeps them current until ctx ends. It does not block.
func (i *Informers) Run(ctx context.Context) {
	for _, informer := range i.All() {
		go informer.RunWithContext(ctx)
	}
}

// HasSynced reports whether the first lists have all arrived.
func (i *Informers) HasSynced() bool {
	for _, informer := range i.All() {
		if !informer.HasSynced() {
			return false
		}
	}
	return true
}

// Get returns one object of an informer.
func Get[T any](i cache.SharedIndexInformer, key string) (T, bool) {
	var none T
	o, ok, err := i.GetStore().GetByKey(key)
	if err != nil || !ok {
		return none, false
	}
	t, ok := o.(T)
	return t, ok
}

// List returns all objects of an informer.
func List[T any](i cache.SharedIndexInformer) []T {
	var out []T
	for _, o := range i.GetStore().List() {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}
