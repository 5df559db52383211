package crdwatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/diff"
	"github.com/virtflow/virtflow/crdwatch/upgrade"
)

// LeaseName is the name of the Lease that the leader holds, in virtflow's own namespace.
const LeaseName = "virtflow-crdwatch"

// leaseDuration is how long a leader that died keeps its lease, and retryPeriod how often a live one renews it. They
// are client-go's customary values, with which a leader on a busy machine, or with a busy API server, keeps its lease.
// A lease that is lost because of load causes more load, since the next leader sends everything again. A leader that
// stops in an orderly way releases its lease at once.
const (
	leaseDuration = 15 * time.Second
	// RenewDeadline is when a leader that could not renew its lease stops leading.
	RenewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// resyncRate is how many unchanged objects are sent again in a second.
const resyncRate rate.Limit = 100

// newElector returns the elector of the leader among crdwatch's replicas.
func (w *view) newElector() (*leaderelection.LeaderElector, error) {
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
			OnStoppedLeading: func() { o.Log.Info().Msg("stopped leading") },
			OnNewLeader: func(identity string) {
				if identity != o.Identity {
					o.Log.Info().Str("leader", identity).Msg("observed another leader")
				}
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the election of a leader: %w", err)
	}
	return elector, nil
}

// lead sends everything once and then what changes, and moves what runs to the logic of this release, until ctx ends.
func (w *view) lead(ctx context.Context) {
	log := w.options.Log
	epoch, err := w.restores.Epoch(ctx)
	if err != nil {
		log.Warn().Err(err).Msg("failed to read the epoch; continuing with the known one")
		epoch = w.epoch.Load()
	}
	if w.rereadIfOutdated(epoch) {
		return
	}
	w.epoch.Store(epoch)
	log.Info().Int64("epoch", epoch).Msg("started leading; sending all objects")
	limiter := rate.NewLimiter(resyncRate, 1)
	outbox := delivery.NewOutbox(w.sender, w.options.Outages, w.epoch.Load, limiter, w.metrics, log)
	d := diff.New(w.informers, outbox, w.metrics)
	resyncer := diff.NewResyncer(d, diff.Clients{Kubernetes: w.options.Kubernetes, KubeVirt: w.options.KubeVirt,
		Temporal: w.options.Temporal}, limiter, log)
	updater := upgrade.New(w.options.Temporal, d.WorkflowTypes(), log)
	w.leading.Store(d)
	defer w.leading.CompareAndSwap(d, nil) // unless this process leads again
	w.options.Outages.Begin(time.Now())
	var wg sync.WaitGroup
	wg.Go(func() { resyncer.Run(ctx) })
	wg.Go(func() { updater.Run(ctx) })
	wg.Go(func() { w.checkRestores(ctx, resyncer.RedeliverAll) })
	outbox.Run(ctx, w.options.Workers)
	wg.Wait()
}
