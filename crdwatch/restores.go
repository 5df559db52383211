package crdwatch

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/restore"
)

// rereadIfOutdated reports whether another process has begun a newer epoch than the one in which the informers were
// filled. Then it has everything read again, since the informers may hold what etcd never had.
func (w *view) rereadIfOutdated(epoch int64) bool {
	if epoch <= max(w.epoch.Load(), 1) {
		return false
	}
	w.options.Log.Info().Int64("epoch", epoch).Msg("observed a new epoch; reading all objects again")
	w.end()
	return true
}

// checkRestores checks for restored databases until ctx ends: every restore.Interval, and as soon as Temporal is back
// after an outage.
func (w *view) checkRestores(ctx context.Context, redeliverAll func()) {
	var last time.Time
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		suspicion := w.options.Outages.Suspicion()
		if suspicion.IsZero() && time.Since(last) < restore.Interval {
			return
		}
		last = time.Now()
		if w.checkRestore(ctx, redeliverAll) {
			w.options.Outages.Trust(suspicion)
		}
	}, delivery.SuspectPause)
}

// suspectRestore makes a leader check for a restore at once.
func (w *view) suspectRestore() {
	w.restoreSuspected.Store(true)
	w.options.Outages.Suspect(time.Now())
}

// checkRestore checks for restored databases, and reports whether it could. After a restore of Temporal's database
// everything is sent again. After one of etcd everything is first read again: resourceVersions have run backwards, and
// the informers may hold what etcd never had.
func (w *view) checkRestore(ctx context.Context, redeliverAll func()) bool {
	v, err := w.restores.Check(ctx, w.restoreSuspected.Load())
	if err != nil {
		if ctx.Err() == nil {
			w.options.Log.Warn().Err(err).
				Msg("failed to check whether etcd or Temporal's database was restored; it will be retried")
		}
		return false
	}
	if !v.IsRestored() && w.rereadIfOutdated(v.Next.Epoch) {
		return false
	}
	if !v.Kubernetes { // then what the informers hold is not of this epoch
		w.epoch.Store(v.Next.Epoch)
	}
	w.epochs.epoch.Set(float64(v.Next.Epoch))
	if !v.IsRestored() {
		return true
	}
	for cause, is := range map[string]bool{causeTemporal: v.Temporal, causeKubernetes: v.Kubernetes} {
		if is {
			w.epochs.epochs.WithLabelValues(cause).Inc()
		}
	}
	w.options.Log.Warn().Int64("epoch", v.Next.Epoch).Bool("temporal_restored", v.Temporal).
		Bool("kubernetes_restored", v.Kubernetes).
		Msg("detected a restored database; a new epoch begins and all objects are sent again")
	go w.announcer.Announce(context.WithoutCancel(ctx), v)
	if v.Kubernetes {
		w.end()
		return false // the outbox still has observations of the old informers
	}
	redeliverAll()
	return true
}
