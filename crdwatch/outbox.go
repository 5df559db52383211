package crdwatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"

	"github.com/virtflow/virtflow/internal/temporalclient"
)

// Outbox delivers observations: in order and one at a time for each workflow, at once for different ones, changes
// before what is only resynced. Of observations with one subject only the newest is kept. What is under flow control is
// sent no faster than control workers take it in, and with it what was held back for its workflow; or at once, with
// something urgent. What cannot be delivered is tried again, with growing pauses, for as long as Run runs.
type Outbox struct {
	sender  Sender
	outages *temporalclient.Outages
	metrics *Metrics
	log     zerolog.Logger
	queue   workqueue.TypedRateLimitingInterface[string]
	// epoch is what observations are sent in.
	epoch func() int64
	// throttle is how fast what was sent lately is sent again.
	throttle throttle
	// flows are where what is under flow control waits for its turn.
	flows *flows

	mu      sync.Mutex
	pending map[string][]*Delivery
	lately  Lately
}

const (
	// firstPause and longestPause lie between attempts of one workflow's deliveries. With the longest one, everything
	// that has had its turn is delivered within two minutes after Temporal answers again.
	firstPause   = 50 * time.Millisecond
	longestPause = 30 * time.Second
	sendTimeout  = 10 * time.Second
	// suspectFor is for how long nothing is sent to a Temporal that may be an older copy, and suspectPause how often
	// that is looked at. Without a control worker nobody can look; then observations would wait all the same.
	suspectFor   = time.Minute
	suspectPause = time.Second
)

func newOutbox(sender Sender, outages *temporalclient.Outages, m *Metrics, log zerolog.Logger) *Outbox {
	o := &Outbox{
		sender: sender, outages: outages, metrics: m, log: log, pending: map[string][]*Delivery{},
		epoch: func() int64 { return 0 }, throttle: throttle{limiter: rate.NewLimiter(resyncRate, 1)},
		flows: newFlows(),
	}
	o.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstPause, longestPause),
		workqueue.TypedRateLimitingQueueConfig[string]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
				Queue: workqueue.NewTypedWithConfig(
					workqueue.TypedQueueConfig[string]{Queue: &turns{changed: o.changed}}),
			}),
		})
	return o
}

// changed says that something other than a resync waits for a workflow.
func (o *Outbox) changed(workflow string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.pending[workflow], func(d *Delivery) bool { return !d.Resync })
}

// Put takes a delivery. One with the same subject that still waits is replaced, in its place. What is known is only
// kept.
func (o *Outbox) Put(d Delivery) {
	d.since = time.Now()
	o.mu.Lock()
	o.put(&d)
	put := d // the Outbox may change it from now on
	o.mu.Unlock()
	if !put.Known {
		o.turn(&put)
	}
}

// put is Put under the lock.
func (o *Outbox) put(d *Delivery) {
	list := o.pending[d.Workflow]
	if i := slices.IndexFunc(list, d.Supersede); i >= 0 {
		list[i] = d
		return
	}
	if d.Known {
		o.lately.Add(d, d.since)
		return
	}
	o.pending[d.Workflow] = append(list, d)
	o.metrics.depth.Inc()
}

// Holds says that something is on its way to a workflow: it waits to be delivered, is due, and has had its turn.
func (o *Outbox) Holds(workflow string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.pending[workflow]
	return len(list) > 0 && !inFlow(list) && Held(list, time.Now()) == 0
}

// inFlow says that all there is for a workflow waits for the turn of its flow.
func (o *Outbox) inFlow(workflow string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return inFlow(o.pending[workflow])
}

// handOver has a workflow whose turn has come in its flow be sent all there is for it.
func (o *Outbox) handOver(workflow string) {
	o.mu.Lock()
	for _, d := range o.pending[workflow] {
		if d.FlowControlled { // else it may be on its way, and is read meanwhile
			d.FlowControlled = false
		}
	}
	o.mu.Unlock()
	o.queue.Add(workflow)
}

// oldest is when the first delivery of those that wait was due, or will be, in seconds since 1970; 0: none waits.
func (o *Outbox) oldest() float64 {
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

// turn gives the workflow of a delivery its turn.
func (o *Outbox) turn(d *Delivery) {
	switch {
	case d.FlowControlled:
		o.flows.add(d.Workflow)
	case d.Hold > 0:
		o.queue.AddAfter(d.Workflow, d.Hold)
	default:
		o.queue.Add(d.Workflow)
	}
}

// Run delivers with that many connections at once, until ctx ends. What is left then is dropped: the next leader sends
// all anew.
func (o *Outbox) Run(ctx context.Context, workers int) {
	defer context.AfterFunc(ctx, o.queue.ShutDown)()
	defer context.AfterFunc(ctx, o.flows.queue.ShutDown)()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for o.step(ctx) {
			}
		})
		wg.Go(func() { o.flows.run(ctx, o.handOver) })
	}
	wg.Go(func() { o.sendAgain(ctx) })
	wg.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, list := range o.pending {
		o.metrics.depth.Sub(float64(len(list)))
	}
	o.pending = map[string][]*Delivery{}
}

// step delivers what waits for one workflow.
func (o *Outbox) step(ctx context.Context) bool {
	workflow, shutdown := o.queue.Get()
	if shutdown {
		return false
	}
	defer o.queue.Done(workflow)
	if o.inFlow(workflow) {
		o.queue.Forget(workflow)
		return true
	}
	if o.suspects() {
		o.queue.AddAfter(workflow, suspectPause)
		return true
	}
	refused := map[*Delivery]bool{}
	for {
		d, wait := o.first(workflow)
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
		switch consequenceOf(err) {
		case absent:
			if o.startFirst(d) {
				continue
			}
			fallthrough
		case delivered:
			o.metrics.count(d.Kind, resultSent)
			o.metrics.lag.Observe(max(0, time.Since(d.due())).Seconds())
			o.done(d, true)
		case dropped:
			o.metrics.count(d.Kind, resultDropped)
			log(o.log.Error()).Msg("Temporal can never take an observation: it is dropped")
			o.done(d, false)
		case retriedBehind:
			refused[d] = true
			o.metrics.count(d.Kind, resultRefused)
			log(o.log.Warn()).Msg("Temporal refuses an observation, trying again after the others of its workflow")
			o.last(d)
		case retried:
			o.metrics.count(d.Kind, resultFailed)
			log(o.log.Warn()).Msg("Temporal did not take an observation, trying again")
			o.queue.AddRateLimited(workflow)
			return true
		}
	}
}

// suspects says that Temporal may be an older copy: first somebody looks. An entity with an old memory that hears of
// something in the epoch that it knows would act on what it remembers.
func (o *Outbox) suspects() bool {
	reachable, suspected := o.outages.SuspectedFor(time.Now())
	return suspected && reachable < suspectFor
}

func (o *Outbox) send(ctx context.Context, d *Delivery) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	o.mu.Lock()
	again := o.lately.MayBeLost(d)
	o.mu.Unlock()
	return o.sender.Send(ctx, d.At(o.epoch(), again))
}

// first is the delivery whose turn it is, or how long it may still wait for others to be merged with it.
func (o *Outbox) first(workflow string) (*Delivery, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.pending[workflow]
	if len(list) == 0 {
		return nil, 0
	}
	if wait := Held(list, time.Now()); wait > 0 {
		return nil, wait
	}
	list[0].sending, list[0].FlowControlled = true, false
	return list[0], 0
}

// startFirst moves what starts the workflow of a delivery to the front; false: nothing does. What is of the same kind
// as the start is of an earlier object, and the end of an object is nothing to a workflow that is about to begin.
func (o *Outbox) startFirst(d *Delivery) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.pending[d.Workflow]
	i := slices.IndexFunc(list, func(other *Delivery) bool { return other.Start != nil && other.Signal != d.Signal })
	if i < 0 || d.ends() {
		return false
	}
	o.pending[d.Workflow] = append([]*Delivery{list[i]}, slices.Delete(slices.Clone(list), i, i+1)...)
	return true
}

// last moves a delivery behind the others of its workflow, unless a newer one has taken its place meanwhile.
func (o *Outbox) last(d *Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if list := o.pending[d.Workflow]; len(list) > 0 && list[0] == d {
		o.pending[d.Workflow] = append(slices.Clone(list[1:]), d)
	}
}

// done drops what was delivered, unless a newer one has taken its place meanwhile.
func (o *Outbox) done(d *Delivery, sent bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if sent {
		o.lately.Add(d, time.Now())
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

// sendAgain sends what Temporal has taken in the last minutes once more whenever the connection to it was lost: a
// server that lost its last commits has forgotten it. Behind everything else, no faster than control workers take it
// in, and with a pause: a server that comes and goes is one loss.
func (o *Outbox) sendAgain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case lost := <-o.outages.Restored():
			n := 0
			for _, d := range o.sentBefore(lost) {
				if o.throttle.wait(ctx, d.Workflow) != nil {
					return
				}
				if o.again(d) {
					n++
				}
			}
			o.log.Info().Time("lost", lost).Int("again", n).
				Msg("Temporal answers again: sent once more what it took shortly before")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(againPause):
		}
	}
}

func (o *Outbox) sentBefore(lost time.Time) []*Delivery {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lately.Lost(lost)
}

// again queues what was sent before, unless something newer with that subject was sent since or waits.
func (o *Outbox) again(d *Delivery) bool {
	o.mu.Lock()
	last := o.lately.of[d.subject()]
	if !last.lost {
		o.mu.Unlock()
		return false
	}
	d = last.delivery
	again := *d
	again.Resync, again.FlowControlled, again.Known, again.sending, again.Hold = true, false, false, false, 0
	again.since = time.Now()
	for i, waits := range o.pending[d.Workflow] {
		if waits.subject() != d.subject() {
			continue
		}
		if d.Merge != nil {
			merged := *waits
			merged.Payload = d.Merge(d.Payload, waits.Payload)
			o.pending[d.Workflow][i] = &merged
		}
		o.mu.Unlock()
		return false
	}
	o.put(&again)
	o.mu.Unlock()
	o.queue.Add(d.Workflow)
	return true
}
