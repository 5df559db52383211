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
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/virtflow/virtflow/internal/kube"
)

// LeaseName is the name of the Lease that the leader holds, in virtflow's own namespace.
const LeaseName = "virtflow-crdwatch"

// How long a dead leader stays in charge, and how often a live one renews its lease: client-go's customary figures, with which a leader on a
// machine that is busy, or with an API server that is, keeps its lease. A lease that is lost for load costs more load: everything is told
// again. A leader that ends in an orderly way releases its lease at once.
const (
	leaseDuration = 15 * time.Second
	// RenewDeadline is when a leader that could not renew its lease stops leading.
	RenewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

const (
	// resyncInterval is how often the leader looks through everything for what was missed.
	resyncInterval = 5 * time.Minute
	// resyncRate is how many objects a second are sent again although nothing has changed.
	resyncRate rate.Limit = 100
)

// Options are what a watcher needs; all must be set but Leases, Connection and Registry.
type Options struct {
	Kubernetes kubernetes.Interface
	KubeVirt   *kube.Client
	// Leases is a client of its own (kube.LeaseConfig), so that no other request delays the renewal of the lease; nil: that of Kubernetes.
	Leases   coordination.LeasesGetter
	Temporal client.Client
	// Connection intercepts the calls of that client; nil: nobody notices when Temporal was away.
	Connection *Connection
	// Namespace is virtflow's own: of the lease and of the node workers' pods.
	Namespace string
	// Identity tells this process from others that want to lead.
	Identity string
	// Workers is how many workflows are sent something at once.
	Workers  int
	Registry prometheus.Registerer
	Log      zerolog.Logger
}

// Watcher is one process's part in watching: it keeps its informers current all the time, and sends while it leads.
type Watcher struct {
	options   Options
	informers *Informers
	sender    Sender
	metrics   *Metrics
	leading   atomic.Pointer[Leader]
}

// New prepares a watcher; nothing is contacted before Run.
func New(o Options) (*Watcher, error) {
	if o.Kubernetes == nil || o.KubeVirt == nil || o.Temporal == nil {
		return nil, errors.New("a watcher needs clients of Kubernetes and of Temporal")
	}
	if o.Namespace == "" || o.Identity == "" || o.Workers < 1 {
		return nil, errors.New("a watcher needs its namespace, an identity, and at least one worker")
	}
	if o.Leases == nil {
		o.Leases = o.Kubernetes.CoordinationV1()
	}
	if o.Connection == nil {
		o.Connection = NewConnection()
	}
	i, err := NewInformers(o.Kubernetes, o.KubeVirt, o.Namespace)
	if err != nil {
		return nil, err
	}
	w := &Watcher{options: o, informers: i, sender: NewSender(o.Temporal), metrics: NewMetrics(o.Registry)}
	if err := i.Subscribe(w.leading.Load); err != nil {
		return nil, err
	}
	return w, nil
}

// Ready is a health check: leader or not, a watcher that has not seen everything yet could not take over.
func (w *Watcher) Ready(context.Context) error {
	if !w.informers.synced() {
		return errors.New("the first lists from the API server have not all arrived")
	}
	return nil
}

// Run watches until ctx ends, and leads whenever it is its turn.
func (w *Watcher) Run(ctx context.Context) error {
	w.informers.run(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), w.informers.synced) {
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
			Client:     o.Leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
		},
		LeaseDuration:   leaseDuration,
		RenewDeadline:   RenewDeadline,
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
	log.Info().Msg("leading: sending every workflow what there is")
	outbox := newOutbox(w.sender, w.options.Connection, w.metrics, log)
	l := NewLeader(w.options, w.metrics, w.informers, outbox, resyncRate)
	w.leading.Store(l)
	w.metrics.leader.Set(1)
	defer func() {
		w.leading.CompareAndSwap(l, nil)
		w.metrics.leader.Set(0)
	}()
	go l.run(ctx)
	outbox.Run(ctx, w.options.Workers)
}
