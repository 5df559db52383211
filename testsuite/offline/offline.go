package offline

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/crdwatch"
	"github.com/virtflow/virtflow/workflows/contract"
)

// Watcher is a crdwatch that always leads. It is not safe for concurrent use.
type Watcher struct {
	options   crdwatch.Options
	informers *crdwatch.Informers
	metrics   *crdwatch.Metrics
	leader    *crdwatch.Leader
	pending   queue
	epoch     int64
}

// New makes one. Of the options it uses the clients (only for Resync), the namespace and the log.
func New(o crdwatch.Options) (*Watcher, error) {
	i, err := crdwatch.NewInformers(o.Kubernetes, o.KubeVirt, o.Namespace)
	if err != nil {
		return nil, err
	}
	for _, informer := range []*cache.SharedIndexInformer{&i.VMs, &i.VMIs, &i.ReplicaSets, &i.Pods, &i.Nodes, &i.Workers} {
		*informer = &still{SharedIndexInformer: *informer}
	}
	w := &Watcher{options: o, informers: i, metrics: crdwatch.NewMetrics(nil)}
	if err := i.Subscribe(func() *crdwatch.Leader { return w.leader }); err != nil {
		return nil, err
	}
	w.begin()
	return w, nil
}

// begin begins a leadership: what was queued before is lost.
func (w *Watcher) begin() {
	w.pending = nil
	w.leader = crdwatch.NewLeader(w.options, w.metrics, w.informers, &w.pending, rate.Inf)
}

// NewEpoch is what a leader does that has found an older copy: it sends everything again, in a new epoch.
func (w *Watcher) NewEpoch(ctx context.Context) error {
	w.epoch++
	return w.Lead(ctx)
}

// Lead is what a new leader does: it sends everything once.
func (w *Watcher) Lead(ctx context.Context) error {
	w.begin()
	return w.leader.SendAll(ctx)
}

// Resync looks for what was missed, as a leader does now and then. First: all objects have just been sent.
func (w *Watcher) Resync(ctx context.Context, first bool) error { return w.leader.Resync(ctx, first) }

// Look is what a leader does between two resyncs; it returns when to look next.
func (w *Watcher) Look(ctx context.Context) (time.Duration, error) { return w.leader.Look(ctx) }

// Set is an object that was added or has changed.
func (w *Watcher) Set(o metav1.Object) {
	i := w.informerOf(o)
	if i == nil {
		return
	}
	stripped, err := crdwatch.Strip(o)
	if err != nil {
		return
	}
	before, known, err := i.GetStore().Get(stripped)
	if err != nil || i.GetStore().Update(stripped) != nil {
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
func (w *Watcher) Remove(o metav1.Object) {
	i := w.informerOf(o)
	if i == nil {
		return
	}
	before, known, err := i.GetStore().Get(o)
	if err != nil || !known || i.GetStore().Delete(before) != nil {
		return
	}
	for _, h := range i.handlers {
		h.OnDelete(before)
	}
}

// Take are the deliveries that wait, in an order that depends on nothing but what was put: by workflow, then as they
// were put.
func (w *Watcher) Take() []*crdwatch.Delivery {
	out := w.pending
	w.pending = nil
	slices.SortStableFunc(out, func(a, b *crdwatch.Delivery) int { return strings.Compare(a.Workflow, b.Workflow) })
	for i, d := range out {
		out[i] = d.At(w.epoch)
	}
	return out
}

// queue keeps what is put, the newest of each object.
type queue []*crdwatch.Delivery

// Put takes a delivery.
func (q *queue) Put(d crdwatch.Delivery) {
	for i, old := range *q {
		if d.Supersede(old) {
			(*q)[i] = &d
			return
		}
	}
	*q = append(*q, &d)
}

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

// informerOf is the informer that would hold an object; nil: none.
func (w *Watcher) informerOf(o metav1.Object) *still {
	var i cache.SharedIndexInformer
	switch o.(type) {
	case *kubevirt.VirtualMachine:
		i = w.informers.VMs
	case *kubevirt.VirtualMachineInstance:
		i = w.informers.VMIs
	case *kubevirt.VirtualMachineInstanceReplicaSet:
		i = w.informers.ReplicaSets
	case *corev1.Node:
		i = w.informers.Nodes
	case *corev1.Pod:
		worker, err := labels.Parse(crdwatch.WorkerSelector)
		switch {
		case o.GetLabels()[contract.LabelLauncher] == contract.LabelLauncherValue:
			i = w.informers.Pods
		case err == nil && worker.Matches(labels.Set(o.GetLabels())):
			i = w.informers.Workers
		}
	}
	held, _ := i.(*still) //nolint:errcheck // nil where there is none
	return held
}
