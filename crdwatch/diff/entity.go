package diff

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/watch"
)

// entity describes the objects of one kind that have a workflow of their own.
type entity[T metav1.Object, O any] struct {
	*record
	kind[O]
	workflow string // its type
	title    string // the kind's name in Kubernetes
	id       func(namespace, name string) string
	informer cache.SharedIndexInformer
	// isClosed reports whether an object no longer needs a workflow; nil: each needs one for as long as it exists.
	isClosed func(T) bool
	observe  func(T) O
	gone     func(uid string) O
	// isRequest reports whether a change is a request to a workflow that runs. Requests are sent no faster than control
	// workers process them; nil: everything is sent at once. New objects are, because their workflows queue in
	// Temporal.
	isRequest func(last, now O) bool
	// isRepeatDue reports whether an observation is worth sending although it is the same as the last one; nil: none
	// is. Known: one was sent before.
	isRepeatDue func(object T, known bool) bool
	related[T, O]
	// read reads an object from the API server.
	read func(ctx context.Context, c Clients, namespace, name string) (T, error)
	// named returns an object with nothing but its metadata.
	named func(metav1.ObjectMeta) T
}

// related sends other workflows what concerns them of the objects of one kind. Each function may be nil.
type related[T metav1.Object, O any] struct {
	// sendToOthers sends a change to other workflows than the object's own. If the object was not known, it also sends
	// that workflow what concerns it of other objects. Known: last was sent before.
	sendToOthers func(object T, last O, known bool, from delivery.Cause)
	// sendGoneToOthers sends other workflows that an object is gone.
	sendGoneToOthers func(object T, from delivery.Cause)
	// forgetSent drops the record of what was sent to the object's workflow about other objects.
	forgetSent func(object T)
}

// sendChanged sends an object to its workflow, which is started if it does not run, and to others.
func (e *entity[T, O]) sendChanged(key string, from delivery.Cause) {
	e.mu.Lock()
	defer e.mu.Unlock()
	object, ok := watch.Get[T](e.informer, key)
	if !ok {
		return
	}
	namespace, name, uid := object.GetNamespace(), object.GetName(), string(object.GetUID())
	last, known := recall(e.record, e.kind, uid)
	var start *delivery.Start
	if e.needsWorkflow(object) {
		start = newStart(e.workflow, e.title, namespace, name, uid)
	}
	now := e.observe(object)
	id, cause := e.id(namespace, name), from
	repeat := e.isRepeatDue != nil && e.isRepeatDue(object, known)
	switch _, writes := any(now).(contract.Repeatable); {
	case recordNew(e.record, e.kind, uid, now):
		if known && from == change && e.isRequest != nil && e.isRequest(last, now) {
			cause = delivery.Requested
		}
		put(e.record, e.kind, id, uid, now, start, cause)
	case repeat:
		remember(e.record, e.kind, uid, now)
		put(e.record, e.kind, id, uid, now, start, resync)
	case writes && from == change:
		put(e.record, e.kind, id, uid, now, start, delivery.OwnWrite)
	}
	if !known && e.forgetSent != nil {
		e.forgetSent(object) // what was sent before the workflow ran may be lost: sendToOthers sends it again
	}
	if e.sendToOthers != nil {
		e.sendToOthers(object, last, known, from)
	}
}

// needsWorkflow reports whether an object needs its workflow.
func (e *entity[T, O]) needsWorkflow(object T) bool { return e.isClosed == nil || !e.isClosed(object) }

// sendGone sends that an object does not exist any more. It starts no workflow.
func (e *entity[T, O]) sendGone(object T, from delivery.Cause) {
	e.mu.Lock()
	defer e.mu.Unlock()
	uid := string(object.GetUID())
	forget(e.record, e.kind, uid)
	if from == change {
		e.sentEnds.add(uid)
	}
	id := e.id(object.GetNamespace(), object.GetName())
	put(e.record, e.kind, id, uid, e.gone(uid), nil, refine(from, delivery.Gone))
	if e.sendGoneToOthers != nil {
		e.sendGoneToOthers(object, from)
	}
}

// redeliver sends the workflow of an object everything that it has to know, as to one that knows nothing.
func (e *entity[T, O]) redeliver(object T) {
	e.mu.Lock()
	forget(e.record, e.kind, string(object.GetUID()))
	e.mu.Unlock()
	e.sendChanged(cache.MetaObjectToName(object).String(), resync)
}

// newStart returns how the workflow of an object is started; title is the kind's name in Kubernetes.
func newStart(workflow, title, namespace, name, uid string) *delivery.Start {
	s := &delivery.Start{
		Type: workflow, Input: contract.EntityInput{Namespace: namespace, Name: name},
		Summary: title + " " + cache.NewObjectName(namespace, name).String(),
		Search: map[string]string{contract.SearchNamespace: namespace, contract.SearchName: name,
			contract.SearchUID: uid},
	}
	if workflow == contract.WorkflowNode {
		s.Search[contract.SearchNode] = name
	}
	return s
}
