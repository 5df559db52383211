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
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/diff"
	"github.com/virtflow/virtflow/crdwatch/restore"
	"github.com/virtflow/virtflow/crdwatch/watch"
)

// Watcher is a crdwatch that leads from the beginning. It is not safe for concurrent use.
type Watcher struct {
	options      crdwatch.Options
	informers    *watch.Informers
	metrics      *delivery.Metrics
	restores     *restore.Detector
	differ       *diff.Differ
	resyncer     *diff.Resyncer
	pending      queue
	recentlySent delivery.RecentlySent
	epoch        int64
}

// New returns a Watcher. It uses the options' clients, namespace and log.
func New(o crdwatch.Options) (*Watcher, error) {
	i, err := watch.NewInformers(o.Kubernetes, o.KubeVirt, o.Namespace, o.LauncherImage)
	if err != nil {
		return nil, err
	}
	for _, informer := range all(i) {
		*informer = &still{SharedIndexInformer: *informer}
	}
	w := &Watcher{
		options: o, informers: i, metrics: delivery.NewMetrics(nil),
		restores: restore.New(o.Temporal, o.Kubernetes.CoordinationV1().Leases(o.Namespace)),
	}
	if err := diff.Subscribe(i, func() *diff.Differ { return w.differ }); err != nil {
		return nil, err
	}
	w.begin()
	return w, nil
}

// begin begins a leadership: what was queued before is lost.
func (w *Watcher) begin() {
	w.pending, w.recentlySent = nil, delivery.RecentlySent{}
	w.differ = diff.New(w.informers, &w.pending, w.metrics)
	w.resyncer = diff.NewResyncer(w.differ, diff.Clients{Kubernetes: w.options.Kubernetes, KubeVirt: w.options.KubeVirt,
		Temporal: w.options.Temporal}, rate.NewLimiter(rate.Inf, 1), w.options.Log)
}

// Lead sends everything once, as a new leader does.
func (w *Watcher) Lead(ctx context.Context) error {
	w.begin()
	epoch, err := w.restores.Epoch(ctx)
	if err != nil {
		return err
	}
	w.epoch = epoch
	return w.resyncer.SendAll(ctx)
}

// Guard checks for older copies, as a leader does every restore.Interval. After an older copy of Temporal's database
// the caller must lead again; after one of etcd it must also call Read before.
func (w *Watcher) Guard(ctx context.Context) (restore.Result, error) {
	v, err := w.restores.Check(ctx, false)
	if err == nil {
		w.epoch = v.Next.Epoch
	}
	return v, err
}

// Read replaces all objects, as a crdwatch does that begins to watch. It does not lead yet.
func (w *Watcher) Read(objects []metav1.Object) {
	w.differ = nil
	for _, i := range w.stills() {
		_ = i.GetStore().Replace(nil, "")
	}
	listed := ""
	for _, o := range objects {
		w.Set(o)
		if c, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), listed); err != nil || c > 0 {
			listed = o.GetResourceVersion()
		}
	}
	for _, i := range w.stills() {
		i.version = listed
	}
}

// Restored sends what Temporal had acknowledged shortly before lost again, unless something newer is queued, as a
// leader does when the connection is back.
func (w *Watcher) Restored(lost time.Time) {
	waits := w.pending
	w.pending = nil
	for _, d := range w.recentlySent.MarkLost(lost) {
		again := *d
		again.Policy = delivery.Policy{Class: delivery.Resync}
		w.pending.Put(again)
	}
	for _, d := range waits {
		w.pending.Put(*d.Delivery)
	}
}

// Resync compares what runs with what exists, as a leader does periodically, and returns the time until the next
// resync. If first is true, all objects have just been sent.
func (w *Watcher) Resync(ctx context.Context, first bool) (time.Duration, error) {
	return w.resyncer.Resync(ctx, first)
}

// TakeCensus does the leader's check between two resyncs, and returns the time until the next one.
func (w *Watcher) TakeCensus(ctx context.Context) (time.Duration, error) {
	return w.resyncer.TakeCensus(ctx)
}

// Set adds or changes an object.
func (w *Watcher) Set(o metav1.Object) {
	i := w.informerOf(o)
	if i == nil {
		return
	}
	stripped, err := watch.Strip(o)
	if err != nil {
		return
	}
	i.version = o.GetResourceVersion()
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

// Remove removes an object.
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

// Take returns the due deliveries, in an order that depends only on the order of Put: by workflow, then as they were
// put. Temporal receives them at that time. The others wait for further changes, the first of them for as long as wait;
// 0: none waits.
func (w *Watcher) Take(now time.Time) (out []*delivery.Delivery, wait time.Duration) {
	taken := w.pending
	w.pending = nil
	slices.SortStableFunc(taken, func(a, b waiting) int { return strings.Compare(a.Workflow, b.Workflow) })
	for len(taken) > 0 {
		n := slices.IndexFunc(taken, func(x waiting) bool { return x.Workflow != taken[0].Workflow })
		if n < 0 {
			n = len(taken)
		}
		if held := debounce(taken[:n], now); held > 0 {
			w.pending = append(w.pending, taken[:n]...)
			if wait == 0 || held < wait {
				wait = held
			}
		} else {
			for _, x := range taken[:n] {
				again := w.recentlySent.MayBeLost(x.Delivery)
				w.recentlySent.Add(x.Delivery, now)
				if x.Class != delivery.Record {
					out = append(out, x.At(w.epoch, again))
				}
			}
		}
		taken = taken[n:]
	}
	return out, wait
}

// debounce returns how long the deliveries to one workflow may still wait for further changes.
func debounce(list []waiting, now time.Time) time.Duration {
	all := make([]*delivery.Delivery, 0, len(list))
	for i := range list {
		if list[i].since.IsZero() {
			list[i].since = now
		}
		list[i].SetSince(list[i].since)
		if list[i].Class != delivery.Record {
			all = append(all, list[i].Delivery)
		}
	}
	return delivery.RemainingDebounce(all, now)
}

// waiting is a delivery with the time since which it waits.
type waiting struct {
	*delivery.Delivery
	since time.Time
}

// queue keeps what is put, the newest of each object.
type queue []waiting

// Put queues a delivery.
func (q *queue) Put(d delivery.Delivery) {
	for i, old := range *q {
		if d.Supersede(old.Delivery) {
			(*q)[i].Delivery = &d
			return
		}
	}
	*q = append(*q, waiting{Delivery: &d})
}

// Throttle returns at once.
func (q *queue) Throttle(context.Context, string) error { return nil }

// still is an informer that never runs: it has the objects that it is given, and the handlers.
type still struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
	version  string
}

// LastSyncResourceVersion returns the resourceVersion of the list, or of the last object.
func (s *still) LastSyncResourceVersion() string { return s.version }

// AddEventHandler keeps the handler.
func (s *still) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	s.handlers = append(s.handlers, h)
	return nil, nil
}

func all(i *watch.Informers) []*cache.SharedIndexInformer {
	return []*cache.SharedIndexInformer{&i.VMs, &i.VMIs, &i.ReplicaSets, &i.Migrations, &i.Pods, &i.Nodes, &i.Workers,
		&i.PVCs, &i.DataVolumes, &i.Settings}
}

func (w *Watcher) stills() []*still {
	var out []*still
	for _, i := range all(w.informers) {
		if s, ok := (*i).(*still); ok {
			out = append(out, s)
		}
	}
	return out
}

// informerOf returns the informer for an object, or nil.
func (w *Watcher) informerOf(o metav1.Object) *still {
	var i cache.SharedIndexInformer
	switch o.(type) {
	case *kubevirt.VirtualMachine:
		i = w.informers.VMs
	case *kubevirt.VirtualMachineInstance:
		i = w.informers.VMIs
	case *kubevirt.VirtualMachineInstanceReplicaSet:
		i = w.informers.ReplicaSets
	case *kubevirt.VirtualMachineInstanceMigration:
		i = w.informers.Migrations
	case *corev1.Node:
		i = w.informers.Nodes
	case *corev1.PersistentVolumeClaim:
		i = w.informers.PVCs
	case *cdi.DataVolume:
		i = w.informers.DataVolumes
	case *kubevirt.KubeVirt:
		i = w.informers.Settings
	case *corev1.Pod:
		worker, err := labels.Parse(watch.WorkerSelector)
		switch {
		case o.GetLabels()[contract.LabelLauncher] == contract.LabelLauncherValue:
			i = w.informers.Pods
		case err == nil && worker.Matches(labels.Set(o.GetLabels())):
			i = w.informers.Workers
		}
	}
	held, _ := i.(*still)
	return held
}
