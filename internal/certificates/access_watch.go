package certificates

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// After an error it is tried again after accessPause, which grows up to accessPauses.
const accessPause, accessPauses = time.Second, time.Minute

// Secrets watches each Secret by its name, which is all that RBAC permits: a manager's own cache has one selector for
// all. It implements a reader of them.
type Secrets struct {
	caches map[types.NamespacedName]cache.Cache
}

// WatchSecrets has a manager watch some Secrets, each separately.
func WatchSecrets(mgr ctrl.Manager, names ...types.NamespacedName) (*Secrets, error) {
	s := &Secrets{caches: map[types.NamespacedName]cache.Cache{}}
	for _, name := range names {
		only := cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", name.Name)}
		c, err := cache.New(mgr.GetConfig(), cache.Options{
			HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Secret{}: {Namespaces: map[string]cache.Config{name.Namespace: only}}},
		})
		if err != nil {
			return nil, fmt.Errorf("setting up the watch of Secret %s: %w", name, err)
		}
		if err := mgr.Add(watched{c}); err != nil {
			return nil, fmt.Errorf("setting up the watch of Secret %s: %w", name, err)
		}
		s.caches[name] = c
	}
	return s, nil
}

// watched has a manager start a cache before its readers.
type watched struct{ cache.Cache }

func (w watched) GetCache() cache.Cache { return w.Cache }

// Get reads one of the Secrets.
func (s *Secrets) Get(ctx context.Context, name client.ObjectKey, into client.Object, o ...client.GetOption) error {
	c, ok := s.caches[name]
	if !ok {
		return fmt.Errorf("%s is not among the Secrets that are watched", name)
	}
	return c.Get(ctx, name, into, o...) // the cache's own errors
}

// List is not possible.
func (s *Secrets) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("the Secrets that are watched are read by their names")
}

// SetUp has a manager call the Access whenever one of its Secrets changes, and periodically because certificates age.
// Every replica does it.
func (a *Access) SetUp(mgr ctrl.Manager, s *Secrets) error {
	everyReplica := false
	b := ctrl.NewControllerManagedBy(mgr).Named("access-certificates")
	for _, name := range []types.NamespacedName{a.Own, a.Nodes} {
		b = b.WatchesRawSource(source.Kind(s.caches[name], &corev1.Secret{}, handler.TypedEnqueueRequestsFromMapFunc(
			func(context.Context, *corev1.Secret) []reconcile.Request {
				return []reconcile.Request{{NamespacedName: a.Own}}
			})))
	}
	err := b.WithOptions(controller.Options{
		NeedLeaderElection: &everyReplica,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](accessPause,
			accessPauses),
	}).Complete(a)
	if err != nil {
		return fmt.Errorf("setting up the certificates for access to nodes: %w", err)
	}
	return nil
}

// Reconcile renews certificates that are about to expire, and begins to use new ones. If another replica has written
// first, the watch will deliver its write.
func (a *Access) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if err := a.Refresh(ctx); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: checkInterval}, nil
}
