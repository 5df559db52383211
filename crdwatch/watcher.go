package crdwatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.temporal.io/sdk/client"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/virtflow/virtflow/crdwatch/fencing"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/temporalclient"
)

// LeaseName is the name of the Lease that the leader holds, in virtflow's own namespace.
const LeaseName = "virtflow-crdwatch"

// How long a dead leader stays in charge, and how often a live one renews its lease: client-go's customary figures,
// with which a leader on a machine that is busy, or with an API server that is, keeps its lease. A lease that is lost
// for load costs more load: everything is sent again. A leader that ends in an orderly way releases its lease at once.
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

// Options are what a watcher needs; all must be set but Leases, Outages and Registry.
type Options struct {
	Kubernetes kubernetes.Interface
	KubeVirt   *kube.Client
	// Leases is a client of its own (kube.LeaseConfig), so that no other request delays the renewal of the lease; nil:
	// that of Kubernetes.
	Leases   coordination.LeasesGetter
	Temporal client.Client
	// Outages intercepts the calls of that client; nil: nobody notices when Temporal was away.
	Outages *temporalclient.Outages
	// Namespace is virtflow's own: of the lease and of the node workers' pods.
	Namespace string
	// LauncherImage is the one that control workers give to new launchers; "": nobody looks for launchers of another.
	LauncherImage string
	// Identity tells this process from others that want to lead.
	Identity string
	// Workers is how many workflows are sent something at once.
	Workers  int
	Registry prometheus.Registerer
	Log      zerolog.Logger
}

// Watcher is one process's part in watching: it keeps its informers current all the time, and sends while it leads.
type Watcher struct {
	options Options
	sender  Sender
	fence   *fencing.Fence
	metrics *Metrics
	// migrations and machines are KubeVirt's metrics of them.
	migrations *migrationMetrics
	machines   *machineMetrics
	// watched is what is watched at present.
	watched atomic.Pointer[watch]
}

// watch is what a process knows of Kubernetes since it has read everything anew.
type watch struct {
	*Watcher
	informers *Informers
	leading   atomic.Pointer[Leader]
	// epoch is the newest one that the informers are known to have been filled in.
	epoch atomic.Int64
	// older says that an informer was told of an object in an older version than it had read.
	older atomic.Bool
	// end ends it, for everything to be read anew.
	end context.CancelFunc
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
	if o.Outages == nil {
		o.Outages = temporalclient.NewOutages()
	}
	w := &Watcher{
		options: o, sender: NewSender(o.Temporal), metrics: NewMetrics(o.Registry),
		fence: fencing.New(o.Temporal, o.Kubernetes.CoordinationV1().Leases(o.Namespace)),
	}
	w.migrations, w.machines = newMigrationMetrics(w.led), newMachineMetrics(w.led)
	if o.Registry != nil {
		o.Registry.MustRegister(w.migrations, w.machines)
	}
	return w, nil
}

// led is what the informers hold while this process leads; nil: it does not.
func (w *Watcher) led() *Informers {
	if v := w.watched.Load(); v != nil && v.leading.Load() != nil {
		return v.informers
	}
	return nil
}

// Ready is a health check: leader or not, a watcher that has not seen everything yet could not take over.
func (w *Watcher) Ready(context.Context) error {
	if watched := w.watched.Load(); watched == nil || !watched.informers.synced() {
		return errors.New("the first lists from the API server have not all arrived")
	}
	return nil
}

// Run watches until ctx ends, and leads whenever it is its turn.
func (w *Watcher) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := w.watch(ctx); err != nil {
			return err
		}
	}
	return nil
}

// watch reads everything, and then takes part in leading until ctx ends or everything is to be read anew.
func (w *Watcher) watch(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	i, err := NewInformers(w.options.Kubernetes, w.options.KubeVirt, w.options.Namespace,
		w.options.LauncherImage)
	if err != nil {
		return err
	}
	v := &watch{Watcher: w, informers: i, end: end}
	if err := i.Subscribe(v.leading.Load); err != nil {
		return err
	}
	if err := i.noticeOlder(v.suspectOlder); err != nil {
		return err
	}
	if err := errors.Join(w.migrations.follow(i), w.machines.follow(i)); err != nil {
		return err
	}
	// The epoch is read first: what the informers hold is not older.
	//nolint:errcheck // it retries until ctx ends
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		epoch, err := w.fence.Epoch(ctx)
		if err != nil {
			w.options.Log.Warn().Err(err).Msg("reading the epoch, trying again")
		}
		v.epoch.Store(epoch)
		return err == nil, nil
	})
	i.run(ctx)
	w.watched.Store(v)
	if !cache.WaitForCacheSync(ctx.Done(), i.synced) {
		return fmt.Errorf("reading the cluster's objects: %w", context.Cause(ctx))
	}
	for ctx.Err() == nil {
		elector, err := v.elector()
		if err != nil {
			return err
		}
		elector.Run(ctx) // returns when the lease is lost
	}
	return nil
}

func (w *watch) elector() (*leaderelection.LeaderElector, error) {
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
func (w *watch) lead(ctx context.Context) {
	log := w.options.Log
	epoch, err := w.fence.Epoch(ctx)
	if err != nil {
		log.Warn().Err(err).Msg("reading the epoch: going on with the one that is known")
		epoch = w.epoch.Load()
	}
	if w.outdated(epoch) {
		return
	}
	w.epoch.Store(epoch)
	log.Info().Int64("epoch", epoch).Msg("leading: sending every workflow what there is")
	outbox := newOutbox(w.sender, w.options.Outages, w.metrics, log)
	outbox.epoch = w.epoch.Load
	l := NewLeader(w.options, w.metrics, w.informers, outbox, resyncRate)
	outbox.throttle = l.resyncer.throttle
	outbox.flows.window = window{size: flowWindow, takenIn: l.resyncer.takenIn, log: log}
	w.leading.Store(l)
	w.metrics.outbox.Store(outbox)
	defer func() {
		w.leading.CompareAndSwap(l, nil) // unless this process leads again
		w.metrics.outbox.CompareAndSwap(outbox, nil)
	}()
	w.options.Outages.Begin(time.Now())
	var wg sync.WaitGroup
	wg.Go(func() { l.run(ctx) })
	wg.Go(func() { w.guard(ctx, l) })
	outbox.Run(ctx, w.options.Workers)
	wg.Wait()
}

// outdated says that another process has begun a newer epoch than the one that the informers were filled in, and has
// everything read anew: what they hold may never have been.
func (w *watch) outdated(epoch int64) bool {
	if epoch <= max(w.epoch.Load(), 1) {
		return false
	}
	w.options.Log.Info().Int64("epoch", epoch).Msg("a new epoch has begun: reading everything anew")
	w.end()
	return true
}

// guard looks for older copies until ctx ends: every fencing.Interval, and as soon as Temporal is back where it was
// away.
func (w *watch) guard(ctx context.Context, l *Leader) {
	var last time.Time
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		suspicion := w.options.Outages.Suspicion()
		if suspicion.IsZero() && time.Since(last) < fencing.Interval {
			return
		}
		last = time.Now()
		if w.look(ctx, l) {
			w.options.Outages.Trust(suspicion)
		}
	}, suspectPause)
}

// suspectOlder makes a leader look at once.
func (w *watch) suspectOlder() {
	w.older.Store(true)
	w.options.Outages.Suspect(time.Now())
}

// look looks for older copies, and says whether it could. After one of Temporal everything is sent again; after one of
// etcd it is read anew before: resourceVersions have run backwards, and what the informers hold may never have been.
func (w *watch) look(ctx context.Context, l *Leader) bool {
	v, err := w.fence.Look(ctx, w.older.Load())
	if err != nil {
		if ctx.Err() == nil {
			w.options.Log.Warn().Err(err).Msg("looking for older copies, trying again")
		}
		return false
	}
	if !v.Older() && w.outdated(v.Next.Epoch) {
		return false
	}
	if !v.Kubernetes { // then what the informers hold is not of this epoch
		w.epoch.Store(v.Next.Epoch)
	}
	w.metrics.epoch.Set(float64(v.Next.Epoch))
	if !v.Older() {
		return true
	}
	for cause, is := range map[string]bool{causeTemporal: v.Temporal, causeKubernetes: v.Kubernetes} {
		if is {
			w.metrics.epochs.WithLabelValues(cause).Inc()
		}
	}
	w.options.Log.Warn().Int64("epoch", v.Next.Epoch).Bool("temporal_is_older", v.Temporal).
		Bool("kubernetes_is_older", v.Kubernetes).
		Msg("an older copy was put back: a new epoch begins, and everything is sent again")
	go w.announce(context.WithoutCancel(ctx), v)
	if v.Kubernetes {
		w.end()
		return false // what is left in the outbox comes from what the informers hold
	}
	l.Again()
	return true
}
