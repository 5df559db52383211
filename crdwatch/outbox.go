package crdwatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.temporal.io/api/serviceerror"
	"k8s.io/client-go/util/workqueue"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Delivery is one observation on its way to one workflow.
type Delivery struct {
	Workflow string // workflow ID
	Signal   string
	UID      string // of the observed object
	Kind     string
	Payload  any
	// Start starts the workflow where it does not run; nil: an observation for a workflow that does not run is of no use.
	Start *Start
	// Merge makes one payload of two; nil: the newer one is enough.
	Merge func(before, after any) any
	// Hold is how long it may wait for others to be merged with it, where nothing else is on its way to the workflow.
	Hold time.Duration
	// Resync says that it is sent although nothing has changed.
	Resync bool

	since time.Time
	// sent says that it is, or was, on its way: what is merged into it now comes too late for it.
	sent bool
}

// Supersede says that a delivery is of the same object by the same signal as one that was put before; then it takes over
// what it must keep of that one.
func (d *Delivery) Supersede(old *Delivery) bool {
	if d.Workflow != old.Workflow || d.Signal != old.Signal || d.UID != old.UID {
		return false
	}
	if !old.sent {
		d.since = old.since
	}
	if d.Merge != nil {
		d.Payload = d.Merge(old.Payload, d.Payload)
	}
	return true
}

// Start is how an entity workflow is started.
type Start struct {
	Type    string
	Input   contract.EntityInput
	Summary string
	Search  map[string]string // search attributes (keywords)
}

// Queue takes what is to be delivered.
type Queue interface {
	Put(d Delivery)
}

// Sender hands a delivery to Temporal. It returns nil when the workflow has it, or does not run and is not to be started.
type Sender interface {
	Send(ctx context.Context, d *Delivery) error
}

// Outbox delivers observations: in order and one at a time for each workflow, at once for different ones. Of observations of one object by
// one signal only the newest is kept. What cannot be delivered is tried again, with growing pauses, for as long as Run runs.
type Outbox struct {
	sender  Sender
	metrics *Metrics
	log     zerolog.Logger
	queue   workqueue.TypedRateLimitingInterface[string]

	mu      sync.Mutex
	pending map[string][]*Delivery
}

// Pauses between attempts of one workflow's deliveries.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 10 * time.Second
	sendTimeout  = 10 * time.Second
)

func newOutbox(sender Sender, m *Metrics, log zerolog.Logger) *Outbox {
	return &Outbox{
		sender: sender, metrics: m, log: log, pending: map[string][]*Delivery{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstPause, longestPause)),
	}
}

// Put takes a delivery. One of the same object and signal that still waits is replaced, in its place.
func (o *Outbox) Put(d Delivery) {
	d.since = time.Now()
	o.mu.Lock()
	list := o.pending[d.Workflow]
	replaced := false
	for i, old := range list {
		if d.Supersede(old) {
			list[i] = &d
			replaced = true
			break
		}
	}
	if !replaced {
		o.pending[d.Workflow] = append(list, &d)
		o.metrics.depth.Inc()
	}
	o.mu.Unlock()
	if d.Hold > 0 {
		o.queue.AddAfter(d.Workflow, d.Hold)
		return
	}
	o.queue.Add(d.Workflow)
}

// Run delivers with that many connections at once, until ctx ends. What is left then is dropped: the next leader sends all anew.
func (o *Outbox) Run(ctx context.Context, workers int) {
	stop := context.AfterFunc(ctx, o.queue.ShutDown)
	defer stop()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for o.step(ctx) {
			}
		})
	}
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
	for {
		d, wait := o.first(workflow)
		if d == nil || wait > 0 {
			o.queue.Forget(workflow)
			if wait > 0 {
				o.queue.AddAfter(workflow, wait)
			}
			return true
		}
		if err := o.send(ctx, d); err != nil {
			if ctx.Err() != nil {
				return false
			}
			if refused := new(serviceerror.InvalidArgument); errors.As(err, &refused) {
				// It will be refused for ever, and must not hold up what comes behind it.
				o.metrics.count(d.Kind, resultRefused)
				o.log.Error().Err(err).Str("workflow_id", workflow).Str("signal", d.Signal).Str("uid", d.UID).Msg("Temporal refuses an observation; it is dropped")
				o.done(d)
				continue
			}
			o.metrics.count(d.Kind, resultFailed)
			o.log.Warn().Err(err).Str("workflow_id", workflow).Str("signal", d.Signal).Str("uid", d.UID).
				Int("attempt", o.queue.NumRequeues(workflow)+1).Msg("Temporal did not take an observation, trying again")
			o.queue.AddRateLimited(workflow)
			return true
		}
		o.metrics.count(d.Kind, resultSent)
		o.metrics.lag.Observe(time.Since(d.since).Seconds())
		o.done(d)
	}
}

func (o *Outbox) send(ctx context.Context, d *Delivery) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return o.sender.Send(ctx, d)
}

// first is the delivery whose turn it is, or how long it may still wait for others to be merged with it.
func (o *Outbox) first(workflow string) (*Delivery, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.pending[workflow]
	if len(list) == 0 {
		return nil, 0
	}
	if wait := time.Until(list[0].since.Add(list[0].Hold)); len(list) == 1 && list[0].Hold > 0 && wait > 0 {
		return nil, wait
	}
	list[0].sent = true
	return list[0], 0
}

// done drops what was delivered, unless a newer one has taken its place meanwhile.
func (o *Outbox) done(d *Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
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
