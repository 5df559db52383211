package crdwatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// Leader decides what is sent during one leadership. It has no lease or goroutine of its own, and at the rate rate.Inf
// no clock either, so that tests can run it under virtual time.
type Leader struct {
	differ   *differ
	resyncer *resyncer
	updater  *updater
}

// NewLeader begins a leadership: nothing has been sent yet. Of the options it uses the clients and the log. Resync is
// how many objects a second are looked at that have not changed.
func NewLeader(o Options, m *Metrics, i *Informers, q Queue, resync rate.Limit) *Leader {
	d := newDiffer(i, q, m)
	r := &resyncer{
		differ: d, informers: i, apiServer: apiServer{o.Kubernetes, o.KubeVirt}, temporal: o.Temporal, log: o.Log,
		limiter: rate.NewLimiter(resync, 1), again: make(chan struct{}, 1),
	}
	r.throttle = throttle{limiter: r.limiter, window: window{size: resyncWindow, takenIn: r.takenIn, log: o.Log}}
	return &Leader{differ: d, updater: newUpdater(o.Temporal, d.entities.workflowTypes(), o.Log), resyncer: r}
}

// run sends everything that has not been sent yet, then what was missed, and meanwhile brings what runs to the logic of
// this release, until ctx ends.
func (l *Leader) run(ctx context.Context) {
	var updating sync.WaitGroup
	defer updating.Wait()
	updating.Go(func() { l.updater.run(ctx) })
	if l.SendAll(ctx) == nil {
		l.resyncer.run(ctx)
	}
}

// SendAll sends everything that has not been sent yet.
func (l *Leader) SendAll(ctx context.Context) error { return l.resyncer.sendAll(ctx) }

// Again makes run send everything once more, as to workflows that have heard of nothing.
func (l *Leader) Again() {
	select {
	case l.resyncer.again <- struct{}{}:
	default: // it is about to
	}
}

// Resync looks for what was missed, and returns when to do so next. First: all objects have just been sent.
func (l *Leader) Resync(ctx context.Context, first bool) (next time.Duration, err error) {
	return l.resyncer.resync(ctx, first)
}

// Look resyncs if not as many workflows run as there are objects, and it was so at the last look. It returns when to
// look next.
func (l *Leader) Look(ctx context.Context) (next time.Duration, err error) {
	return l.resyncer.look(ctx)
}

// untyped is an entity without the types of its objects and observations.
type untyped interface {
	subscribe(leading func() *Leader) error
	workflowType() string
	missing(running int) int
	sendAll(ctx context.Context, r *resyncer) error
	vanishedObjects(ctx context.Context, r *resyncer, open map[string]openEntity) error
	lostWorkflows(ctx context.Context, r *resyncer, open map[string]openEntity) error
}

// Subscribe hands the informers' events to whoever leads; while another process does, events are dropped.
func (i *Informers) Subscribe(leading func() *Leader) error {
	for _, e := range describe(i).each() {
		if err := e.subscribe(leading); err != nil {
			return fmt.Errorf("subscribing to an informer: %w", err)
		}
	}
	node := func(l *Leader, worker *corev1.Pod) {
		l.differ.entities.node.changed(l.differ, worker.Spec.NodeName, change)
	}
	claim := func(l *Leader, pvc *corev1.PersistentVolumeClaim) { l.differ.claim(pvc) }
	filled := func(l *Leader, dv *cdi.DataVolume) { l.differ.dataVolume(dv) }
	for _, err := range []error{
		on(i.Pods, leading,
			func(l *Leader, pod *corev1.Pod) { l.differ.pod(cache.MetaObjectToName(pod).String(), change) },
			func(l *Leader, pod *corev1.Pod) { l.differ.podGone(pod, change) }),
		on(i.Workers, leading, node, node),
		on(i.Claims, leading, claim, claim),
		on(i.DataVolumes, leading, filled, filled),
	} {
		if err != nil {
			return fmt.Errorf("subscribing to an informer: %w", err)
		}
	}
	return nil
}

func (e *entity[T, O]) subscribe(leading func() *Leader) error {
	return on(e.informer, leading,
		func(l *Leader, o T) { e.changed(l.differ, cache.MetaObjectToName(o).String(), change) },
		func(l *Leader, o T) { e.vanished(l.differ, o, change) })
}

// on calls changed and gone for the events of one informer. A name that goes from one UID to another at once was
// deleted in between.
func on[T metav1.Object](
	informer cache.SharedIndexInformer, leading func() *Leader, changed, gone func(*Leader, T),
) error {
	hand := func(to func(*Leader, T), o any) {
		if t, ok := o.(T); ok {
			if l := leading(); l != nil {
				to(l, t)
			}
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { hand(changed, o) },
		UpdateFunc: func(before, after any) {
			a, okA := before.(T)
			b, okB := after.(T)
			if okA && okB && a.GetUID() != b.GetUID() {
				hand(gone, before)
			}
			hand(changed, after)
		},
		DeleteFunc: func(o any) {
			if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = d.Obj
			}
			hand(gone, o)
		},
	})
	return err
}
