package settings

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/kube"
)

// ObjectName is the name of the only KubeVirt object that is read.
const ObjectName = "kubevirt"

// Watcher follows one KubeVirt object. It is safe for concurrent use.
type Watcher struct {
	client    *kube.Client
	namespace string
	informer  cache.SharedIndexInformer
	key       string
}

// NewWatcher returns a Watcher of the KubeVirt object in a namespace; nothing happens before Run.
func NewWatcher(client *kube.Client, namespace string) *Watcher {
	return &Watcher{
		client: client, namespace: namespace,
		informer: cache.NewSharedIndexInformer(client.ListWatch(kube.ResourceKubeVirt, namespace, ObjectName),
			&kubevirt.KubeVirt{}, 0, nil),
		key: namespace + "/" + ObjectName,
	}
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) { w.informer.RunWithContext(ctx) }

// Follow calls f with the settings when the object is first seen, and after each change of it.
func (w *Watcher) Follow(f func(Settings)) error { return Follow(w.informer, f) }

// Synced reports whether the first answer of the API server has arrived.
func (w *Watcher) Synced() bool { return w.informer.HasSynced() }

// WaitForSync waits until Synced or the end of ctx.
func (w *Watcher) WaitForSync(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
		return fmt.Errorf("reading the KubeVirt object %s: %w", w.key, context.Cause(ctx))
	}
	return nil
}

// Ready is a health check: it fails until the KubeVirt object has been read.
func (w *Watcher) Ready(context.Context) error {
	if !w.Synced() {
		return errors.New("the KubeVirt object " + w.key + " has not been read yet")
	}
	return nil
}

// Current returns the settings as last seen; the defaults while there is no such object.
func (w *Watcher) Current() Settings { return From(w.Object()) }

// Read returns the settings of the object that the API server has now, where an older one must not decide; the defaults
// if there is none.
func (w *Watcher) Read(ctx context.Context) (Settings, error) {
	kv, err := w.client.KubeVirts(w.namespace).Get(ctx, ObjectName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return From(nil), nil
	case err != nil:
		return Settings{}, fmt.Errorf("reading the KubeVirt object %s: %w", w.key, err)
	}
	return From(kv), nil
}

// Object returns the KubeVirt object as last seen, nil while there is none. It is shared, and must not be changed.
func (w *Watcher) Object() *kubevirt.KubeVirt {
	o, ok, err := w.informer.GetStore().GetByKey(w.key)
	if err != nil || !ok {
		return nil
	}
	kv, _ := o.(*kubevirt.KubeVirt)
	return kv
}
