package crdwatch

import (
	"context"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// noticeOlder calls older when a list tells an informer of an object in an older version than the informer had read.
// Where nothing was put back, what a list tells anew is newer than what was held. Informers list anew after the API
// server was away (package kube).
//
// Two versions are compared with. One is that of what the informer held when it had to list anew; it is noted where
// the API server refuses to go on, and not where a watch ends for another reason, after which an informer lists anew
// as well: then nothing is noticed. The other is the newest that its handler was told: events of before the list may
// still be on their way, and are newer than that.
func (i *Informers) noticeOlder(older func()) error {
	for _, informer := range i.each() {
		l := &listener{older: older}
		if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
			held := informer.LastSyncResourceVersion()
			l.held.Store(&held)
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}); err != nil {
			return fmt.Errorf("following the errors of an informer: %w", err)
		}
		if _, err := informer.AddEventHandler(l); err != nil {
			return fmt.Errorf("subscribing to an informer: %w", err)
		}
	}
	return nil
}

// listener is an informer's handler, which is told one thing at a time.
type listener struct {
	older  func()
	held   atomic.Pointer[string]
	newest string
}

// OnAdd is told of an object that was not held. First: of the first list.
func (l *listener) OnAdd(o any, first bool) { l.told(o, !first) }

// OnUpdate is told of an object that was held, too of one that has not changed.
func (l *listener) OnUpdate(before, after any) {
	a, okA := before.(metav1.Object)
	b, okB := after.(metav1.Object)
	l.told(after, okA && okB && a.GetResourceVersion() != b.GetResourceVersion())
}

// OnDelete is told of the last version that is known.
func (l *listener) OnDelete(o any) {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	l.told(o, false)
}

// told takes a version, and compares it where it is another one than that of what was held.
func (l *listener) told(o any, compare bool) {
	object, ok := o.(metav1.Object)
	if !ok {
		return
	}
	version := object.GetResourceVersion()
	if held := l.held.Load(); compare && held != nil && notNewer(version, *held) && notNewer(version, l.newest) {
		l.older()
	}
	if !notNewer(version, l.newest) {
		l.newest = version
	}
}

// notNewer says that a version is at most another one. Versions that are no numbers, or none, cannot be compared.
func notNewer(version, than string) bool {
	c, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && c <= 0
}
