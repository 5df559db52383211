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

	"github.com/virtflow/virtflow/crdwatch"
	"github.com/virtflow/virtflow/crdwatch/fencing"
	"github.com/virtflow/virtflow/workflows/contract"
)

// Watcher is a crdwatch, which leads from the beginning. It is not safe for concurrent use.
type Watcher struct {
	options   crdwatch.Options
	informers *crdwatch.Informers
	metrics   *crdwatch.Metrics
	fence     *fencing.Fence
	leader    *crdwatch.Leader
	pending   queue
	lately    crdwatch.Lately
	epoch     int64
}

// New makes one. Of the options it uses the clients, the namespace and the log.
func New(o crdwatch.Options) (*Watcher, error) {
	i, err := crdwatch.NewInformers(o.Kubernetes, o.KubeVirt, o.Namespace, o.LauncherImage)
	if err != nil {
		return nil, err
	}
	for _, informer := range all(i) {
		*informer = &still{SharedIndexInformer: *informer}
	}
	w := &Watcher{
		options: o, informers: i, metrics: crdwatch.NewMetrics(nil),
		fence: fencing.New(o.Temporal, o.Kubernetes.CoordinationV1().Leases(o.Namespace)),
	}
	if err := i.Subscribe(func() *crdwatch.Leader { return w.leader }); err != nil {
		return nil, err
	}
	w.begin()
	return w, nil
}

// begin begins a leadership: what was queued before is lost.
func (w *Watcher) begin() {
	w.pending, w.lately = nil, crdwatch.Lately{}
	w.leader = crdwatch.NewLeader(w.options, w.metrics, w.informers, &w.pending, rate.Inf)
}

// Lead is what a new leader does: it sends everything once.
func (w *Watcher) Lead(ctx context.Context) error {
	w.begin()
	epoch, err := w.fence.Epoch(ctx)
	if err != nil {
		return err
	}
	w.epoch = epoch
	return w.leader.SendAll(ctx)
}

// Guard looks for older copies, as a leader does every fencing.Interval. After one of Temporal's database whoever calls
// it leads anew; after one of etcd it reads everything before.
func (w *Watcher) Guard(ctx context.Context) (fencing.Verdict, error) {
	v, err := w.fence.Look(ctx, false)
	if err == nil {
		w.epoch = v.Next.Epoch
	}
	return v, err
}

// Read is what a crdwatch does that begins to watch: it forgets what it held, and holds these objects. It does not lead
// yet.
func (w *Watcher) Read(objects []metav1.Object) {
	w.leader = nil
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

// Restored is what a leader does when Temporal answers again that was lost at a time: it sends what Temporal took
// shortly before once more, unless something newer waits.
func (w *Watcher) Restored(lost time.Time) {
	waits := w.pending
	w.pending = nil
	for _, d := range w.lately.Lost(lost) {
		again := *d
		again.Resync, again.Known, again.Hold = true, false, 0
		w.pending.Put(again)
	}
	for _, d := range waits {
		w.pending.Put(*d.Delivery)
	}
}

// Resync looks for what was missed, as a leader does now and then; it returns when to do so next. First: all objects
// have just been sent.
func (w *Watcher) Resync(ctx context.Context, first bool) (time.Duration, error) {
	return w.leader.Resync(ctx, first)
}

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

// Take are the deliveries whose turn it is, in an order that depends on nothing but what was put: by workflow, then as
// they were put. Temporal takes them at that time. Others wait for what comes next, the first of them for as long as it
// returns; 0: none does.
func (w *Watcher) Take(now time.Time) (out []*crdwatch.Delivery, wait time.Duration) {
	taken := w.pending
	w.pending = nil
	slices.SortStableFunc(taken, func(a, b waiting) int { return strings.Compare(a.Workflow, b.Workflow) })
	for len(taken) > 0 {
		n := slices.IndexFunc(taken, func(x waiting) bool { return x.Workflow != taken[0].Workflow })
		if n < 0 {
			n = len(taken)
		}
		if held := held(taken[:n], now); held > 0 {
			w.pending = append(w.pending, taken[:n]...)
			if wait == 0 || held < wait {
				wait = held
			}
		} else {
			for _, x := range taken[:n] {
				again := w.lately.MayBeLost(x.Delivery)
				w.lately.Add(x.Delivery, now)
				if !x.Known {
					out = append(out, x.At(w.epoch, again))
				}
			}
		}
		taken = taken[n:]
	}
	return out, wait
}

// held is how long what waits for one workflow may go on waiting, from when it was first looked at.
func held(list []waiting, now time.Time) time.Duration {
	all := make([]*crdwatch.Delivery, 0, len(list))
	for i := range list {
		if list[i].since.IsZero() {
			list[i].since = now
		}
		list[i].Waits(list[i].since)
		if !list[i].Known {
			all = append(all, list[i].Delivery)
		}
	}
	return crdwatch.Held(all, now)
}

// waiting is a delivery, and since when it waits.
type waiting struct {
	*crdwatch.Delivery
	since time.Time
}

// queue keeps what is put, the newest of each object.
type queue []waiting

// Put takes a delivery.
func (q *queue) Put(d crdwatch.Delivery) {
	for i, old := range *q {
		if d.Supersede(old.Delivery) {
			(*q)[i].Delivery = &d
			return
		}
	}
	*q = append(*q, waiting{Delivery: &d})
}

// Holds says that something is on its way to a workflow.
func (q *queue) Holds(workflow string) bool {
	return slices.ContainsFunc(*q, func(w waiting) bool { return w.Workflow == workflow })
}

// still is an informer that never runs: it holds what it is given, and who wants to hear of it.
type still struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
	version  string
}

// LastSyncResourceVersion is that of the list, or of the object that it was given last.
func (s *still) LastSyncResourceVersion() string { return s.version }

// AddEventHandler keeps the handler.
func (s *still) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	s.handlers = append(s.handlers, h)
	return nil, nil //nolint:nilnil // there is nothing to unsubscribe from
}

func all(i *crdwatch.Informers) []*cache.SharedIndexInformer {
	return []*cache.SharedIndexInformer{&i.VMs, &i.VMIs, &i.ReplicaSets, &i.Migrations, &i.Pods, &i.Nodes, &i.Workers,
		&i.Claims, &i.DataVolumes}
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
	case *kubevirt.VirtualMachineInstanceMigration:
		i = w.informers.Migrations
	case *corev1.Node:
		i = w.informers.Nodes
	case *corev1.PersistentVolumeClaim:
		i = w.informers.Claims
	case *cdi.DataVolume:
		i = w.informers.DataVolumes
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
