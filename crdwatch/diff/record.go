package diff

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/watch"
)

// Queue takes deliveries.
type Queue interface {
	Put(d delivery.Delivery)
	// Throttle returns when an unchanged object may be sent to its workflow.
	Throttle(ctx context.Context, workflow string) error
}

// record has what one leadership has sent, under one lock: what is queued last is newest.
type record struct {
	informers *watch.Informers
	queue     Queue
	metrics   *delivery.Metrics

	mu sync.Mutex
	// last has what was sent last, by kind and the UID of the object.
	last     map[delivery.Kind]map[string]any
	sentEnds sentEnds
}

func newRecord(i *watch.Informers, q Queue, m *delivery.Metrics) *record {
	return &record{informers: i, queue: q, metrics: m, last: map[delivery.Kind]map[string]any{},
		sentEnds: newSentEnds(clock.RealClock{})}
}

// recall returns what was sent last.
func recall[O any](r *record, k kind[O], uid string) (last O, known bool) {
	last, known = r.last[k.name][uid].(O)
	return last, known
}

// recordNew reports whether an observation is worth sending, and records it as sent.
func recordNew[O any](r *record, k kind[O], uid string, now O) bool {
	if last, known := recall(r, k, uid); known && k.same(last, now) {
		r.metrics.CountSkipped(k.name)
		return false
	}
	remember(r, k, uid, now)
	return true
}

func remember[O any](r *record, k kind[O], uid string, now O) {
	if r.last[k.name] == nil {
		r.last[k.name] = map[string]any{}
	}
	r.last[k.name][uid] = now
}

func forget[O any](r *record, k kind[O], uid string) { delete(r.last[k.name], uid) }

// forgetAll drops the record of what was sent, so that all of it is sent again.
func (r *record) forgetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = map[delivery.Kind]map[string]any{}
	r.sentEnds = newSentEnds(r.sentEnds.clock)
}

// hasSentEnd reports whether an informer has recently seen the end of an object, so that a workflow which has run since
// then was sent it.
func (r *record) hasSentEnd(uid string, since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sentEnds.hasSent(uid, since)
}

// put queues an observation.
func put[O any](
	r *record, k kind[O], workflow, uid string, o any, start *delivery.Start, cause delivery.Cause,
) {
	r.queue.Put(delivery.Delivery{Workflow: workflow, Signal: k.signal, UID: uid, Kind: k.name, Payload: o,
		Start: start, Policy: delivery.PolicyOf(k.name, cause)})
}

// forgetOf drops the record of what was sent to an object about others, whose keys begin with its UID.
func forgetOf[O any](r *record, k kind[O], uid string) {
	sent := r.last[k.name]
	for key := range sent {
		if strings.HasPrefix(key, uid+"/") {
			delete(sent, key)
		}
	}
}
