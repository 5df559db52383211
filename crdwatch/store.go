package crdwatch

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

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
)

// store keeps what the API server said, without what no observation is made from.
type store struct {
	vms, vmis, sets, pods, nodes, workers cache.SharedIndexInformer
}

func newStore(clients kubernetes.Interface, kv *kube.Client, namespace string) (*store, error) {
	launchers := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = contract.LabelLauncher + "=" + contract.LabelLauncherValue
	}))
	workers := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = WorkerSelector }))
	s := &store{
		vms:     cache.NewSharedIndexInformer(kv.ListWatch(kube.ResourceVM, "", ""), &kubevirt.VirtualMachine{}, 0, nil),
		vmis:    cache.NewSharedIndexInformer(kv.ListWatch(kube.ResourceVMI, "", ""), &kubevirt.VirtualMachineInstance{}, 0, byNamespace()),
		sets:    cache.NewSharedIndexInformer(kv.ListWatch(kube.ResourceVMIRS, "", ""), &kubevirt.VirtualMachineInstanceReplicaSet{}, 0, byNamespace()),
		pods:    launchers.Core().V1().Pods().Informer(),
		nodes:   informers.NewSharedInformerFactory(clients, 0).Core().V1().Nodes().Informer(),
		workers: workers.Core().V1().Pods().Informer(),
	}
	for _, set := range []struct {
		informer  cache.SharedIndexInformer
		transform cache.TransformFunc
	}{{s.vms, stripVM}, {s.vmis, stripVMI}, {s.sets, stripReplicaSet}, {s.pods, stripPod}, {s.nodes, stripNode}, {s.workers, stripPod}} {
		if err := set.informer.SetTransform(set.transform); err != nil {
			return nil, fmt.Errorf("preparing an informer: %w", err)
		}
	}
	for _, pods := range []cache.SharedIndexInformer{s.workers, s.pods} {
		if err := pods.AddIndexers(cache.Indexers{byNode: nodeOf}); err != nil {
			return nil, fmt.Errorf("preparing an index: %w", err)
		}
	}
	if err := s.pods.AddIndexers(cache.Indexers{byOwner: func(o any) ([]string, error) {
		if pod, ok := o.(*corev1.Pod); ok {
			if ref := observe.Owner(pod); ref != nil {
				return []string{ref.UID}, nil
			}
		}
		return nil, nil
	}}); err != nil {
		return nil, fmt.Errorf("preparing an index: %w", err)
	}
	return s, nil
}

// nodeOf indexes pods by the node that they are on.
func nodeOf(o any) ([]string, error) {
	if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

func byNamespace() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}

func (s *store) informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{s.vms, s.vmis, s.sets, s.pods, s.nodes, s.workers}
}

func (s *store) run(ctx context.Context) {
	for _, i := range s.informers() {
		go i.RunWithContext(ctx)
	}
}

func (s *store) synced() bool {
	for _, i := range s.informers() {
		if !i.HasSynced() {
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

func (s *store) workerReady(node string) bool {
	pods, err := s.workers.GetIndexer().ByIndex(byNode, node)
	if err != nil {
		return false
	}
	for _, o := range pods {
		if pod, ok := o.(*corev1.Pod); ok && observe.WorkerReady(pod) {
			return true
		}
	}
	return false
}

// ownedBy lists launcher pods in the informer that were made for a VMI, by the VMI's UID.
func (s *store) ownedBy(uid string) []*corev1.Pod {
	objects, err := s.pods.GetIndexer().ByIndex(byOwner, uid)
	if err != nil {
		return nil
	}
	var out []*corev1.Pod
	for _, o := range objects {
		if pod, ok := o.(*corev1.Pod); ok && observe.Owner(pod) != nil {
			out = append(out, pod)
		}
	}
	return out
}

// launchersOn lists the launcher pods in the informer that are on a node.
func (s *store) launchersOn(node string) []*corev1.Pod {
	objects, err := s.pods.GetIndexer().ByIndex(byNode, node)
	if err != nil {
		return nil
	}
	var out []*corev1.Pod
	for _, o := range objects {
		if pod, ok := o.(*corev1.Pod); ok && observe.Owner(pod) != nil {
			out = append(out, pod)
		}
	}
	return out
}
