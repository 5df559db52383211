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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/diff"
	"github.com/virtflow/virtflow/crdwatch/machinemetrics"
	"github.com/virtflow/virtflow/crdwatch/restore"
	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/internal/temporalclient"
)

// Options configures a watcher. All fields but Leases, Outages, Registry and SetLevel must be set.
type Options struct {
	Kubernetes kubernetes.Interface
	KubeVirt   *kube.Client
	// Leases is a separate client (kube.LeaseConfig), so that no other request delays the renewal of the lease; nil:
	// the one of Kubernetes.
	Leases   coordination.LeasesGetter
	Temporal client.Client
	// Outages intercepts the calls of the Temporal client; nil: outages of Temporal are not detected.
	Outages *temporalclient.Outages
	// Namespace is virtflow's own, which has the lease and the node workers' pods.
	Namespace string
	// LauncherImage is the image that control workers give to new launchers; "": no launcher counts as outdated.
	LauncherImage string
	// Identity is the name of this process in the leader election.
	Identity string
	// Workers is the number of workflows to which observations are sent at once.
	Workers  int
	Registry prometheus.Registerer
	Log      zerolog.Logger
	// SetLevel changes the level of Log; nil: it stays.
	SetLevel func(zerolog.Level)
}

// Watcher keeps the informers of one process current, and sends observations while the process leads.
type Watcher struct {
	options   Options
	sender    delivery.Sender
	restores  *restore.Detector
	announcer restore.Announcer
	metrics   *delivery.Metrics
	epochs    *epochMetrics
	// migrations and machines are KubeVirt's metrics of them.
	migrations *machinemetrics.Migrations
	machines   *machinemetrics.Machines
	// current has the informers of this process.
	current atomic.Pointer[view]
}

// view has what a process has read from Kubernetes since it last read everything.
type view struct {
	*Watcher
	informers *watch.Informers
	leading   atomic.Pointer[diff.Differ]
	// epoch is the newest epoch in which the informers are known to have been filled.
	epoch atomic.Int64
	// restoreSuspected is set when an informer has received an object in an older version than it had read.
	restoreSuspected atomic.Bool
	// end ends the view, so that everything is read again.
	end context.CancelFunc
}

// New returns a watcher. It contacts nothing before Run.
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
		options: o, sender: delivery.NewSender(o.Temporal),
		metrics: delivery.NewMetrics(o.Registry), epochs: newEpochMetrics(o.Registry),
		restores: restore.New(o.Temporal, o.Kubernetes.CoordinationV1().Leases(o.Namespace)),
		announcer: restore.Announcer{
			Kubernetes: o.Kubernetes, KubeVirt: o.KubeVirt, Namespace: o.Namespace, Log: o.Log,
		},
	}
	w.migrations = machinemetrics.NewMigrations(w.leaderInformers)
	w.machines = machinemetrics.NewMachines(w.leaderInformers)
	if o.Registry != nil {
		o.Registry.MustRegister(w.migrations, w.machines, machinemetrics.NewParts(w.leaderInformers))
	}
	return w, nil
}

// leaderInformers returns the informers while this process leads; nil: it does not lead.
func (w *Watcher) leaderInformers() *watch.Informers {
	if v := w.current.Load(); v != nil && v.leading.Load() != nil {
		return v.informers
	}
	return nil
}

// Ready is a health check. A watcher that has not read everything is not ready, whether it leads or not, because it
// could not take over.
func (w *Watcher) Ready(context.Context) error {
	if v := w.current.Load(); v == nil || !v.informers.HasSynced() {
		return errors.New("the first lists from the API server have not all arrived")
	}
	return nil
}

// Run watches until ctx ends, and leads while it holds the lease.
func (w *Watcher) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := w.watch(ctx); err != nil {
			return err
		}
	}
	return nil
}

// watch reads everything and then joins the leader election, until ctx ends or everything has to be read again.
func (w *Watcher) watch(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	i, err := watch.NewInformers(w.options.Kubernetes, w.options.KubeVirt, w.options.Namespace,
		w.options.LauncherImage)
	if err != nil {
		return err
	}
	v := &view{Watcher: w, informers: i, end: end}
	if err := diff.Subscribe(i, v.leading.Load); err != nil {
		return err
	}
	if err := restore.WatchVersions(i.All(), v.suspectRestore); err != nil {
		return err
	}
	if set := w.options.SetLevel; set != nil {
		set(zerolog.Disabled) // the KubeVirt object may have gone since the view before
		follow := func(s settings.Settings) { set(s.LogLevels().Controller) }
		if err := settings.Follow(i.Settings, follow); err != nil {
			return err
		}
	}
	if err := errors.Join(w.migrations.Follow(i), w.machines.Follow(i)); err != nil {
		return err
	}
	// The epoch is read first, so that what the informers hold is not older than it.
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		epoch, err := w.restores.Epoch(ctx)
		if err != nil {
			w.options.Log.Warn().Err(err).Msg("failed to read the epoch; it will be retried")
		}
		v.epoch.Store(epoch)
		return err == nil, nil
	})
	i.Run(ctx)
	w.current.Store(v)
	if !cache.WaitForCacheSync(ctx.Done(), i.HasSynced) {
		return fmt.Errorf("reading the cluster's objects: %w", context.Cause(ctx))
	}
	for ctx.Err() == nil {
		elector, err := v.newElector()
		if err != nil {
			return err
		}
		elector.Run(ctx) // until the lease is lost
	}
	return nil
}
