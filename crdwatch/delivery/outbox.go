package delivery

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"github.com/virtflow/virtflow/internal/temporalclient"
)

// Outbox delivers observations: in order and one at a time for each workflow, at once for different ones, changes
// before resyncs. Of observations with one subject it keeps only the newest. What is under flow control, with what was
// debounced for its workflow, is sent no faster than control workers process it; something urgent for that workflow has
// all of it sent at once. What cannot be delivered is retried with a growing back-off, until Run ends.
type Outbox struct {
	sender  Sender
	outages *temporalclient.Outages
	metrics *Metrics
	log     zerolog.Logger
	queue   workqueue.TypedRateLimitingInterface[string]
	// epoch returns the epoch that observations are sent in.
	epoch func() int64
	// resyncs limits how fast unchanged objects are sent, and redeliveries how fast recently sent observations are
	// redelivered. They have a rate in common, and a window each.
	resyncs, redeliveries throttle
	// flows has the workflows for which something is under flow control.
	flows *flows

	mu           sync.Mutex
	pending      map[string][]*Delivery
	recentlySent RecentlySent
}

const (
	// firstPause and longestPause bound the back-off of one workflow's deliveries. With the longest one, everything
	// that has been tried is delivered within two minutes after Temporal answers again.
	firstPause   = 50 * time.Millisecond
	longestPause = 30 * time.Second
	sendTimeout  = 10 * time.Second
	// suspectFor is for how long nothing is sent to a Temporal whose database may have been restored. The check needs a
	// control worker: without one, observations would wait for ever.
	suspectFor = time.Minute
	// SuspectPause is how often that is checked.
	SuspectPause = time.Second
)

// NewOutbox returns an empty outbox. Epoch returns the epoch that observations are sent in, and limiter limits how many
// unchanged objects are sent in a second.
func NewOutbox(
	sender Sender, outages *temporalclient.Outages, epoch func() int64, limiter *rate.Limiter, m *Metrics,
	log zerolog.Logger,
) *Outbox {
	o := &Outbox{sender: sender, outages: outages, metrics: m, log: log, epoch: epoch,
		pending: map[string][]*Delivery{}}
	o.flows = newFlows(o.newWindow(flowWindow))
	o.resyncs = throttle{limiter: limiter, window: o.newWindow(resyncWindow)}
	o.redeliveries = throttle{limiter: limiter, window: o.newWindow(resyncWindow)}
	o.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstPause, longestPause),
		workqueue.TypedRateLimitingQueueConfig[string]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
				Queue: workqueue.NewTypedWithConfig(
					workqueue.TypedQueueConfig[string]{Queue: &fairQueue{hasChange: o.hasChange}}),
			}),
		})
	return o
}

func (o *Outbox) newWindow(size int) window {
	return window{size: size, waitProcessed: o.waitProcessed, log: o.log}
}

// hasChange reports whether something other than a resync waits for a workflow.
func (o *Outbox) hasChange(workflow string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.pending[workflow], func(d *Delivery) bool { return d.Class != Resync })
}

// Put queues a delivery. It replaces, in its place, one that waits with the same subject. A Record is only
// recorded.
func (o *Outbox) Put(d Delivery) {
	d.since = time.Now()
	o.mu.Lock()
	o.put(&d)
	put := d // other goroutines may change d from now on
	o.mu.Unlock()
	if put.Class != Record {
		o.enqueue(&put)
	}
}

// put is Put for a caller that holds the lock.
func (o *Outbox) put(d *Delivery) {
	list := o.pending[d.Workflow]
	if i := slices.IndexFunc(list, d.Supersede); i >= 0 {
		list[i] = d
		return
	}
	if d.Class == Record {
		o.recentlySent.Add(d, d.since)
		return
	}
	o.pending[d.Workflow] = append(list, d)
	o.metrics.depth.Inc()
}

// Throttle returns when an unchanged object may be sent to its workflow. One goroutine may call it.
func (o *Outbox) Throttle(ctx context.Context, workflow string) error {
	return o.resyncs.wait(ctx, workflow)
}

// pendingPoll is the interval at which waitProcessed checks whether a delivery is still on its way.
const pendingPoll = 10 * time.Millisecond

// waitProcessed returns when everything has been delivered to a workflow and it has processed it.
func (o *Outbox) waitProcessed(ctx context.Context, workflow string) error {
	err := wait.PollUntilContextCancel(ctx, pendingPoll, true, func(context.Context) (bool, error) {
		return !o.hasDue(workflow), nil
	})
	if err != nil {
		return err
	}
	return o.sender.WaitProcessed(ctx, workflow)
}

// hasDue reports whether something for a workflow is on its way: it is queued, is due, and is not held by its flow.
func (o *Outbox) hasDue(workflow string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.pending[workflow]
	return len(list) > 0 && !waitInFlow(list) && RemainingDebounce(list, time.Now()) == 0
}

// waitsInFlow reports whether everything for a workflow waits in its flow.
func (o *Outbox) waitsInFlow(workflow string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return waitInFlow(o.pending[workflow])
}

// handOver releases a workflow's deliveries from flow control and queues them. It is called when the workflow's turn in
// its flow has come.
func (o *Outbox) handOver(workflow string) {
	o.mu.Lock()
	for _, d := range o.pending[workflow] {
		d.leaveFlow()
	}
	o.mu.Unlock()
	o.queue.Add(workflow)
}

// oldestDue returns when the first waiting delivery was due, or will be, in seconds since 1970; 0: none waits.
func (o *Outbox) oldestDue() float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	var first time.Time
	for _, list := range o.pending {
		for _, d := range list {
			if first.IsZero() || d.due().Before(first) {
				first = d.due()
			}
		}
	}
	if first.IsZero() {
		return 0
	}
	return float64(first.UnixMilli()) / float64(time.Second.Milliseconds())
}

// enqueue queues the workflow of a delivery.
func (o *Outbox) enqueue(d *Delivery) {
	switch {
	case d.Class == Request:
		o.flows.add(d.Workflow)
	case d.Debounce > 0:
		o.queue.AddAfter(d.Workflow, d.Debounce)
	default:
		o.queue.Add(d.Workflow)
	}
}

// Run delivers over that many connections at once, until ctx ends. It drops what is left then, since the next leader
// sends everything again.
func (o *Outbox) Run(ctx context.Context, workers int) {
	o.metrics.outbox.Store(o)
	defer o.metrics.outbox.CompareAndSwap(o, nil) // unless this process leads again
	defer context.AfterFunc(ctx, o.queue.ShutDown)()
	defer context.AfterFunc(ctx, o.flows.queue.ShutDown)()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for o.deliverNext(ctx) {
			}
		})
		wg.Go(func() { o.flows.run(ctx, o.handOver) })
	}
	wg.Go(func() { o.redeliverLost(ctx) })
	wg.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, list := range o.pending {
		o.metrics.depth.Sub(float64(len(list)))
	}
	o.pending = map[string][]*Delivery{}
}

// deliverNext delivers what waits for one workflow, and reports whether the queue is still open.
func (o *Outbox) deliverNext(ctx context.Context) bool {
	workflow, shutdown := o.queue.Get()
	if shutdown {
		return false
	}
	defer o.queue.Done(workflow)
	if o.waitsInFlow(workflow) {
		o.queue.Forget(workflow)
		return true
	}
	if o.isTemporalSuspect() {
		o.queue.AddAfter(workflow, SuspectPause)
		return true
	}
	refused := map[*Delivery]bool{}
	for {
		d, wait := o.nextDue(workflow)
		if d == nil || wait > 0 {
			o.queue.Forget(workflow)
			if wait > 0 {
				o.queue.AddAfter(workflow, wait)
			}
			return true
		}
		if refused[d] {
			o.queue.AddRateLimited(workflow)
			return true
		}
		err := o.send(ctx, d)
		if err != nil && ctx.Err() != nil {
			return false
		}
		log := func(e *zerolog.Event) *zerolog.Event {
			return e.Err(err).Str("workflow_id", workflow).Str("signal", d.Signal).Str("uid", d.UID).
				Int("attempt", o.queue.NumRequeues(workflow)+1)
		}
		switch resultOf(err) {
		case sendAbsent:
			if o.moveStartFirst(d) {
				continue
			}
			fallthrough
		case sendDelivered:
			o.metrics.count(d.Kind, resultSent)
			o.metrics.lag.Observe(max(0, time.Since(d.due())).Seconds())
			o.remove(d, true)
		case sendDropped:
			o.metrics.count(d.Kind, resultDropped)
			log(o.log.Error()).Msg("dropped an observation that is too large for Temporal")
			o.remove(d, false)
		case sendRequeueTail:
			refused[d] = true
			o.metrics.count(d.Kind, resultRefused)
			log(o.log.Warn()).Msg("failed to send an observation; it will be retried after the others of its workflow")
			o.moveLast(d)
		case sendRetry:
			o.metrics.count(d.Kind, resultFailed)
			log(o.log.Warn()).Msg("failed to send an observation; it will be retried")
			o.queue.AddRateLimited(workflow)
			return true
		}
	}
}

// isTemporalSuspect reports whether Temporal's database may have been restored and was not checked yet. Then an entity
// may have old state, and would act on it if it received something in the epoch that it knows.
func (o *Outbox) isTemporalSuspect() bool {
	reachable, suspected := o.outages.SuspectedFor(time.Now())
	return suspected && reachable < suspectFor
}

func (o *Outbox) send(ctx context.Context, d *Delivery) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	o.mu.Lock()
	again := o.recentlySent.MayBeLost(d)
	o.mu.Unlock()
	return o.sender.Send(ctx, d.At(o.epoch(), again))
}

// nextDue returns the next delivery for a workflow, or for how long it may still be debounced.
func (o *Outbox) nextDue(workflow string) (*Delivery, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.pending[workflow]
	if len(list) == 0 {
		return nil, 0
	}
	if wait := RemainingDebounce(list, time.Now()); wait > 0 {
		return nil, wait
	}
	list[0].attempted = true
	list[0].leaveFlow()
	return list[0], 0
}

// moveStartFirst moves the delivery that starts the workflow to the front, and reports whether there is one. A start
// with the same signal is of a later object, and the end of an object means nothing to a workflow that is about to
// start.
func (o *Outbox) moveStartFirst(d *Delivery) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.pending[d.Workflow]
	i := slices.IndexFunc(list, func(other *Delivery) bool { return other.Start != nil && other.Signal != d.Signal })
	if i < 0 || d.isEnd() {
		return false
	}
	o.pending[d.Workflow] = append([]*Delivery{list[i]}, slices.Delete(slices.Clone(list), i, i+1)...)
	return true
}

// moveLast moves a delivery behind the others of its workflow, unless a newer one has replaced it.
func (o *Outbox) moveLast(d *Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if list := o.pending[d.Workflow]; len(list) > 0 && list[0] == d {
		o.pending[d.Workflow] = append(slices.Clone(list[1:]), d)
	}
}

// remove drops a delivery, unless a newer one has replaced it. Sent: it is recorded as sent.
func (o *Outbox) remove(d *Delivery, sent bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if sent {
		o.recentlySent.Add(d, time.Now())
	}
	list := o.pending[d.Workflow]
	if len(list) == 0 || list[0] != d {
		return
	}
	o.metrics.depth.Dec()
	if len(list) == 1 {
		delete(o.pending, d.Workflow)
		return
	}
	o.pending[d.Workflow] = list[1:]
}
