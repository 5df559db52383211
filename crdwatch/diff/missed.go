package diff

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/virtflow/virtflow/crdwatch/watch"
)

func (e *entity[T, O]) workflowType() string { return e.workflow }

// missing returns how many objects have no workflow, when that many workflows run; less than 0: how many workflows have
// no object.
func (e *entity[T, O]) missing(running int) int {
	if e.isClosed == nil {
		return len(e.informer.GetStore().ListKeys()) - running
	}
	objects := 0
	for _, o := range watch.List[T](e.informer) {
		if e.needsWorkflow(o) {
			objects++
		}
	}
	return objects - running
}

// sendAll sends first what was changed last: it may be a request that a user made while no process led, and waits for.
func (e *entity[T, O]) sendAll(ctx context.Context) error {
	for _, o := range newestFirst(watch.List[T](e.informer)) {
		if !e.needsWorkflow(o) {
			continue
		}
		if err := e.queue.Throttle(ctx, e.id(o.GetNamespace(), o.GetName())); err != nil {
			return err
		}
		e.sendChanged(cache.MetaObjectToName(o).String(), resync)
	}
	return nil
}

// newestFirst sorts objects of one kind by their resourceVersions, in place.
func newestFirst[T metav1.Object](list []T) []T {
	slices.SortFunc(list, func(a, b T) int {
		// resourceVersions that are not numbers have no order.
		order, _ := resourceversion.CompareResourceVersion(b.GetResourceVersion(), a.GetResourceVersion())
		return order
	})
	return list
}

// sendVanishedObjects sends the open workflows of one type that their object is gone, if it does not exist any more. It
// redelivers an object that needs no workflow any more, so that the workflow ends.
func (e *entity[T, O]) sendVanishedObjects(ctx context.Context, s *sources, open map[string]openEntity) error {
	for workflow, object := range open {
		if object.UID == "" || e.id(object.Namespace, object.Name) != workflow {
			continue
		}
		key := cache.NewObjectName(object.Namespace, object.Name).String()
		if o, ok := watch.Get[T](e.informer, key); ok && string(o.GetUID()) == object.UID {
			if !e.needsWorkflow(o) {
				e.redeliver(o)
			}
			continue
		}
		if e.hasSentEnd(object.UID, object.since) {
			continue
		}
		gone, err := e.isGone(ctx, s.Clients, object.Namespace, object.Name, object.UID)
		if err != nil {
			return err
		}
		if gone {
			e.sendGone(e.named(
				metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name, UID: types.UID(object.UID)}), resync)
		}
	}
	return nil
}

// startLostWorkflows redelivers the objects that have no workflow, which starts one.
func (e *entity[T, O]) startLostWorkflows(ctx context.Context, s *sources, open map[string]openEntity) error {
	unknown := unreadable{log: s.log}
	for _, o := range watch.List[T](e.informer) {
		id := e.id(o.GetNamespace(), o.GetName())
		if _, ok := open[id]; ok || !e.needsWorkflow(o) {
			continue
		}
		if err := s.limiter.Wait(ctx); err != nil {
			return err
		}
		runs, err := s.isRunning(ctx, id)
		if skip, err := unknown.canSkip(ctx, err); err != nil {
			return err
		} else if !skip && !runs {
			e.redeliver(o)
		}
	}
	return nil
}

// isGone reads from the API server whether an object of that UID does not exist any more, and reports whether it is
// gone.
func (e *entity[T, O]) isGone(ctx context.Context, c Clients, namespace, name, uid string) (bool, error) {
	o, err := e.read(ctx, c, namespace, name)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s: %w", e.title, cache.NewObjectName(namespace, name),
			err)
	}
	return string(o.GetUID()) != uid, nil
}
