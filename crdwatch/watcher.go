package crdwatch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/kube"
)

// LeaseName is the name of the Lease that the leader holds, in virtflow's own namespace.
const LeaseName = "virtflow-crdwatch"

// How long a dead leader stays in charge, and how often a live one says so. Shorter than client-go's customary 15 s: while nobody
// leads, nothing that users do has an effect.
const (
	leaseDuration = 8 * time.Second
	renewDeadline = 5 * time.Second
	retryPeriod   = 1500 * time.Millisecond
)

// repairInterval is how often the leader looks for what was missed.
const repairInterval = 5 * time.Minute

// Options are what a watcher needs; all must be set but Registry.
type Options struct {
	Kubernetes kubernetes.Interface
	KubeVirt   *kube.Client
	Temporal   client.Client
	// Namespace is virtflow's own: of the lease and of the node workers' pods.
	Namespace string
	// Identity tells this process from others that want to lead.
	Identity string
	// Workers is how many workflows are told something at once.
	Workers  int
	Registry prometheus.Registerer
	Log      zerolog.Logger
}

// Watcher is one process's part in watching: it keeps its informers current all the time, and sends while it leads.
type Watcher struct {
	options Options
	store   *store
	sender  Sender
	metrics *metrics
	leading atomic.Pointer[evaluator]
}

// New prepares a watcher; nothing is contacted before Run.
func New(o Options) (*Watcher, error) {
	if o.Kubernetes == nil || o.KubeVirt == nil || o.Temporal == nil {
		return nil, errors.New("a watcher needs clients of Kubernetes and of Temporal")
	}
	if o.Namespace == "" || o.Identity == "" || o.Workers < 1 {
		return nil, errors.New("a watcher needs its namespace, an identity, and at least one worker")
	}
	s, err := newStore(o.Kubernetes, o.KubeVirt, o.Namespace)
	if err != nil {
		return nil, err
	}
	w := &Watcher{options: o, store: s, sender: NewSender(o.Temporal), metrics: newMetrics(o.Registry)}
	if err := w.subscribe(); err != nil {
		return nil, err
	}
	return w, nil
}

// Ready is a health check: leader or not, a watcher that has not seen everything yet could not take over.
func (w *Watcher) Ready(context.Context) error {
	if !w.store.synced() {
		return errors.New("the first lists from the API server have not all arrived")
	}
	return nil
}

// Run watches until ctx ends, and leads whenever it is its turn.
func (w *Watcher) Run(ctx context.Context) error {
	w.store.run(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), w.store.synced) {
		return fmt.Errorf("reading the cluster's objects: %w", context.Cause(ctx))
	}
	for ctx.Err() == nil {
		elector, err := w.elector()
		if err != nil {
			return err
		}
		elector.Run(ctx) // returns when the lease is lost
	}
	return nil
}

func (w *Watcher) elector() (*leaderelection.LeaderElector, error) {
	o := w.options
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: o.Namespace, Name: LeaseName},
			Client:     o.Kubernetes.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
		},
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Name:            LeaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: w.lead,
			OnStoppedLeading: func() { o.Log.Info().Msg("not leading") },
			OnNewLeader: func(identity string) {
				if identity != o.Identity {
					o.Log.Info().Str("leader", identity).Msg("another process leads")
				}
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the election of a leader: %w", err)
	}
	return elector, nil
}

// lead sends until ctx ends: everything once, then what changes.
func (w *Watcher) lead(ctx context.Context) {
	log := w.options.Log
	log.Info().Msg("leading: telling every workflow what there is")
	outbox := newOutbox(w.sender, w.metrics, log)
	e := newEvaluator(w.store, outbox, w.metrics)
	w.leading.Store(e)
	w.metrics.leader.Set(1)
	defer func() {
		w.leading.CompareAndSwap(e, nil)
		w.metrics.leader.Set(0)
	}()
	go func() {
		e.all()
		r := &repairer{evaluator: e, store: w.store, kubernetes: w.options.Kubernetes, kubevirt: w.options.KubeVirt, temporal: w.options.Temporal, log: log}
		r.run(ctx, repairInterval)
	}()
	outbox.Run(ctx, w.options.Workers)
}

// subscribe connects the informers' events to the evaluator of whoever leads; while another process does, events are dropped.
func (w *Watcher) subscribe() error {
	for _, err := range []error{
		on(w, w.store.vms, func(e *evaluator, key string, _ *kubevirt.VirtualMachine) { e.vm(key) }, (*evaluator).vmGone),
		on(w, w.store.vmis, func(e *evaluator, key string, _ *kubevirt.VirtualMachineInstance) { e.vmi(key) }, (*evaluator).vmiGone),
		on(w, w.store.sets, func(e *evaluator, key string, _ *kubevirt.VirtualMachineInstanceReplicaSet) { e.replicaSet(key) }, (*evaluator).replicaSetGone),
		on(w, w.store.pods, func(e *evaluator, key string, _ *corev1.Pod) { e.pod(key, false) }, (*evaluator).podGone),
		on(w, w.store.nodes, func(e *evaluator, key string, _ *corev1.Node) { e.node(key) }, (*evaluator).nodeGone),
		on(w, w.store.workers, func(e *evaluator, _ string, pod *corev1.Pod) { e.node(pod.Spec.NodeName) },
			func(e *evaluator, pod *corev1.Pod) { e.node(pod.Spec.NodeName) }),
	} {
		if err != nil {
			return fmt.Errorf("subscribing to an informer: %w", err)
		}
	}
	return nil
}

// on calls changed and gone for the events of one informer. A name that goes from one UID to another at once was deleted in between.
func on[T metav1.Object](w *Watcher, informer cache.SharedIndexInformer, changed func(*evaluator, string, T), gone func(*evaluator, T)) error {
	tell := func(o T) {
		if e := w.leading.Load(); e != nil {
			changed(e, cache.MetaObjectToName(o).String(), o)
		}
	}
	forget := func(o T) {
		if e := w.leading.Load(); e != nil {
			gone(e, o)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if t, ok := o.(T); ok {
				tell(t)
			}
		},
		UpdateFunc: func(before, after any) {
			a, okA := before.(T)
			b, okB := after.(T)
			if !okA || !okB {
				return
			}
			if a.GetUID() != b.GetUID() {
				forget(a)
			}
			tell(b)
		},
		DeleteFunc: func(o any) {
			if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = d.Obj
			}
			if t, ok := o.(T); ok {
				forget(t)
			}
		},
	})
	return err
}
