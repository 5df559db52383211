package crdwatch

import (
	"context"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// noticeOlder calls older when an informer is told of an object in another version than the one that it held, though
// that version is not newer than the list that it held: what it held is not what etcd has any more. Only a list can
// tell; informers list anew after the API server was away (package kube).
func (i *Informers) noticeOlder(older func()) error {
	for _, informer := range i.each() {
		// held is the version of the list that the informer held when it last had to list anew.
		var held atomic.Value
		held.Store("")
		if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			held.Store(informer.LastSyncResourceVersion())
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}); err != nil {
			return fmt.Errorf("following the errors of an informer: %w", err)
		}
		told := func(o any) {
			version, ok := held.Load().(string)
			if object, is := o.(metav1.Object); ok && is && notNewer(object.GetResourceVersion(), version) {
				older()
			}
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(o any, first bool) {
				if !first {
					told(o)
				}
			},
			UpdateFunc: func(before, after any) {
				a, okA := before.(metav1.Object)
				b, okB := after.(metav1.Object)
				if okA && okB && a.GetResourceVersion() != b.GetResourceVersion() {
					told(after)
				}
			},
		}); err != nil {
			return fmt.Errorf("subscribing to an informer: %w", err)
		}
	}
	return nil
}

// notNewer says that a version is at most another one. Versions that are no numbers, or none, cannot be compared.
func notNewer(version, than string) bool {
	c, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && c <= 0
}
