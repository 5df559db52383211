package restore

import (
	"context"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// WatchVersions calls restored when a list gives an informer an object in an older version than the informer had read.
// Unless a database was restored, an object that a list adds is newer than what the informer held. Informers list again
// after an outage of the API server (package kube).
//
// The version is compared with two others. One is what the informer held when it had to list again. It is recorded if
// the API server refuses to continue the watch, but not if the watch ends for another reason, after which an informer
// lists again as well: then a restore is not detected. The other is the newest that the handler has received: events of
// before the list may still be on their way, and are newer than that.
func WatchVersions(informers []cache.SharedIndexInformer, restored func()) error {
	for _, informer := range informers {
		l := &versionListener{restored: restored}
		if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			held := informer.LastSyncResourceVersion()
			l.held.Store(&held)
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}); err != nil {
			return fmt.Errorf("setting an informer's watch error handler: %w", err)
		}
		if _, err := informer.AddEventHandler(l); err != nil {
			return fmt.Errorf("subscribing to an informer: %w", err)
		}
	}
	return nil
}

// versionListener is an informer's handler. The informer calls it from one goroutine.
type versionListener struct {
	restored func()
	held     atomic.Pointer[string]
	newest   string
}

// OnAdd receives an object that the informer did not hold. first means that it comes from the informer's first list.
func (l *versionListener) OnAdd(o any, first bool) { l.observe(o, !first) }

// OnUpdate receives an object that the informer held, also one that has not changed.
func (l *versionListener) OnUpdate(before, after any) {
	a, okA := before.(metav1.Object)
	b, okB := after.(metav1.Object)
	l.observe(after, okA && okB && a.GetResourceVersion() != b.GetResourceVersion())
}

// OnDelete receives the last known version of an object.
func (l *versionListener) OnDelete(o any) {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	l.observe(o, false)
}

// observe records a version. If compare is true, the informer did not hold this version, so observe first compares it
// with the versions from before.
func (l *versionListener) observe(o any, compare bool) {
	object, ok := o.(metav1.Object)
	if !ok {
		return
	}
	version := object.GetResourceVersion()
	if held := l.held.Load(); compare && held != nil && isNotNewer(version, *held) && isNotNewer(version, l.newest) {
		l.restored()
	}
	if !isNotNewer(version, l.newest) {
		l.newest = version
	}
}

// isNotNewer reports whether a version is at most another one. Versions that are not numbers, or are empty, cannot be
// compared.
func isNotNewer(version, than string) bool {
	c, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && c <= 0
}
