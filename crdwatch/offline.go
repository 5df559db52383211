package crdwatch

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Offline is a watcher that always leads, without connections, goroutines or a clock of its own: whoever uses it hands it the objects that
// an informer would, and takes away what is to be delivered. What is told, to whom and when not, is decided by the same code as in a
// Watcher. Test suites that run the control plane under virtual time use it. It is not safe for concurrent use.
type Offline struct {
	watcher *Watcher
}

// NewOffline makes one. Of the options it uses the clients (only for Repair), the namespace and the log.
func NewOffline(o Options) (*Offline, error) {
	s, err := newStore(o.Kubernetes, o.KubeVirt, o.Namespace)
	if err != nil {
		return nil, err
	}
	s.still()
	f := &Offline{watcher: &Watcher{options: o, store: s, metrics: newMetrics(nil)}}
	if err := f.watcher.subscribe(); err != nil {
		return nil, err
	}
	f.lead()
	return f, nil
}

// lead begins a leadership: nothing has been told yet.
func (f *Offline) lead() *evaluator {
	w := f.watcher
	if before := w.leading.Load(); before != nil {
		before.outbox.queue.ShutDown()
	}
	e := newEvaluator(w.store, newOutbox(nil, w.metrics, w.options.Log), w.metrics)
	w.leading.Store(e)
	return e
}

// Lead is what a new leader does: it tells everything once.
func (f *Offline) Lead() { f.lead().all() }

// Set is an object that was added or has changed.
func (f *Offline) Set(o metav1.Object) {
	i := f.watcher.store.informerOf(o)
	if i == nil {
		return
	}
	var stripped any = o
	for _, strip := range strips() {
		stripped, _ = strip(stripped) //nolint:errcheck // none of them fails
	}
	before, known, err := i.GetStore().Get(stripped)
	if err != nil {
		return
	}
	if err := i.GetStore().Update(stripped); err != nil {
		return
	}
	for _, h := range i.handlers {
		if known {
			h.OnUpdate(before, stripped)
		} else {
			h.OnAdd(stripped, false)
		}
	}
}

// Remove is an object that exists no more.
func (f *Offline) Remove(o metav1.Object) {
	i := f.watcher.store.informerOf(o)
	if i == nil {
		return
	}
	before, known, err := i.GetStore().Get(o)
	if err != nil || !known {
		return
	}
	if err := i.GetStore().Delete(before); err != nil {
		return
	}
	for _, h := range i.handlers {
		h.OnDelete(before)
	}
}

// Repair looks for what was missed, as a leader does now and then. First: all objects have just been told.
func (f *Offline) Repair(ctx context.Context, first bool) error {
	o := f.watcher.options
	r := &repairer{evaluator: f.watcher.leading.Load(), store: f.watcher.store, kubernetes: o.Kubernetes, kubevirt: o.KubeVirt, temporal: o.Temporal, log: o.Log}
	return r.once(ctx, first)
}

// Take are the deliveries that wait, in an order that depends on nothing but what was put: by workflow, then as they were put.
func (f *Offline) Take() []*Delivery {
	outbox := f.watcher.leading.Load().outbox
	outbox.mu.Lock()
	defer outbox.mu.Unlock()
	var workflows []string
	for w := range outbox.pending {
		workflows = append(workflows, w)
	}
	slices.Sort(workflows)
	var out []*Delivery
	for _, w := range workflows {
		out = append(out, outbox.pending[w]...)
	}
	outbox.pending = map[string][]*Delivery{}
	return out
}

// Close frees what the outboxes hold.
func (f *Offline) Close() { f.watcher.leading.Load().outbox.queue.ShutDown() }

// still is an informer that never runs: it holds what it is given, and who wants to hear of it.
type still struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

// AddEventHandler keeps the handler.
func (s *still) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	s.handlers = append(s.handlers, h)
	return nil, nil //nolint:nilnil // there is nothing to unsubscribe from
}

// still makes every informer one that never runs.
func (s *store) still() {
	for _, i := range []*cache.SharedIndexInformer{&s.vms, &s.vmis, &s.sets, &s.pods, &s.nodes, &s.workers} {
		*i = &still{SharedIndexInformer: *i}
	}
}

func strips() []cache.TransformFunc {
	return []cache.TransformFunc{stripVM, stripVMI, stripReplicaSet, stripPod, stripNode}
}

// informerOf is the informer that would hold an object; nil: none.
func (s *store) informerOf(o metav1.Object) *still {
	var i cache.SharedIndexInformer
	switch o.(type) {
	case *kubevirt.VirtualMachine:
		i = s.vms
	case *kubevirt.VirtualMachineInstance:
		i = s.vmis
	case *kubevirt.VirtualMachineInstanceReplicaSet:
		i = s.sets
	case *corev1.Node:
		i = s.nodes
	case *corev1.Pod:
		worker, err := labels.Parse(WorkerSelector)
		switch {
		case o.GetLabels()[contract.LabelLauncher] == contract.LabelLauncherValue:
			i = s.pods
		case err == nil && worker.Matches(labels.Set(o.GetLabels())):
			i = s.workers
		}
	}
	held, _ := i.(*still) //nolint:errcheck // nil where there is none
	return held
}
