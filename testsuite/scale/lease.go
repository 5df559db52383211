package main

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/virtflow/virtflow/crdwatch"
)

// leaseWatch records whether a leader has kept its lease.
type leaseWatch struct {
	mu      sync.Mutex
	holder  string
	renewed time.Time
	longest time.Duration
	changes int
}

// observe processes one version of the lease.
func (w *leaseWatch) observe(l *coordinationv1.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	holder, renewed := "", w.renewed
	if l.Spec.HolderIdentity != nil {
		holder = *l.Spec.HolderIdentity
	}
	if l.Spec.RenewTime != nil {
		renewed = l.Spec.RenewTime.Time
	}
	if !w.renewed.IsZero() {
		w.longest = max(w.longest, renewed.Sub(w.renewed))
		if holder != w.holder {
			w.changes++
		}
	}
	w.holder, w.renewed = holder, renewed
}

// sinceRenewed returns the longest time without a renewal, including the present one, and the changes of the holder.
func (w *leaseWatch) sinceRenewed(now time.Time) (longest time.Duration, changes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(w.longest, now.Sub(w.renewed)), w.changes
}

// watchLease follows crdwatch's lease until the run's life ends.
func (r *run) watchLease(ctx, life context.Context) (*leaseWatch, error) {
	w := &leaseWatch{}
	factory := informers.NewSharedInformerFactoryWithOptions(r.kubernetes, 0, informers.WithNamespace(r.System),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, crdwatch.LeaseName).String()
		}))
	informer := factory.Coordination().V1().Leases().Informer()
	if err := follow(informer, w.observe, func(string) {}); err != nil {
		return nil, err
	}
	factory.Start(life.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, context.Cause(ctx)
	}
	return w, nil
}
