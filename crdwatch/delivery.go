package crdwatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Delivery is one observation on its way to one workflow.
type Delivery struct {
	Workflow string // workflow ID
	Signal   string
	UID      string // of the observed object
	Kind     string
	Payload  any
	// Start starts the workflow where it does not run; nil: an observation for a workflow that does not run is of no
	// use, unless another delivery starts that.
	Start *Start
	// Merge makes one payload of two; nil: the newer one is enough.
	Merge func(before, after any) any
	// Hold is how long it may wait for others to be merged with it, or to supersede it, where nothing else is on its
	// way to the workflow.
	Hold time.Duration
	// Known says that its workflow knows it, and is not told. It is kept, as what was sent is: the workflow may forget.
	Known bool
	// FlowControlled says that it asks something of a workflow that runs: where many are asked at once, that waits
	// here, and not in Temporal. It does so until the turn of its flow has come.
	FlowControlled bool
	// Resync says that it is sent although nothing has changed: it goes behind all changes.
	Resync bool

	since time.Time
	// sending says that it is, or was, on its way: what is merged into it now comes too late for it.
	sending bool
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
	// Holds says that something is on its way to a workflow.
	Holds(workflow string) bool
}

// ErrAbsent: a workflow that a delivery does not start does not run.
var ErrAbsent = errors.New("the workflow does not run")

// Sender hands a delivery to Temporal. It returns nil when the workflow has it, and ErrAbsent where that does not run
// and is not to be started.
type Sender interface {
	Send(ctx context.Context, d *Delivery) error
}

// subject is what a delivery speaks of to whom: of two deliveries with the same subject the later one is enough.
type subject struct{ workflow, signal, uid string }

func (d *Delivery) subject() subject { return subject{d.Workflow, d.Signal, d.UID} }

// Supersede says that a delivery has the same subject as one that was put before; then it takes over what it must keep
// of that one.
func (d *Delivery) Supersede(old *Delivery) bool {
	if d.subject() != old.subject() || d.Known && old.sending {
		return false
	}
	d.Known = d.Known && old.Known
	// What could not be sent yet has had its turn.
	d.FlowControlled = old.FlowControlled || d.FlowControlled && !old.urgent()
	if !old.sending {
		if d.Hold > 0 || old.Hold == 0 || old.Known { // else the old one was not late, but held back
			d.since = old.since
		}
		d.Resync = d.Resync && old.Resync
		if !old.Known {
			d.Hold = min(d.Hold, old.Hold) // what may not wait is in it
		}
	}
	if d.Merge != nil {
		d.Payload = d.Merge(old.Payload, d.Payload)
	}
	return true
}

// ends says that it is the end of a pod or an instance.
func (d *Delivery) ends() bool {
	switch o := d.Payload.(type) {
	case contract.PodObservation:
		return o.Gone
	case contract.VMIObservation:
		return o.Gone
	default:
		return false
	}
}

// due is until when it may be held back: what it waits from then on, it is late.
func (d *Delivery) due() time.Time { return d.since.Add(d.Hold) }

// urgent says that it waits for nothing.
func (d *Delivery) urgent() bool { return d.Hold == 0 && !d.FlowControlled && !d.Resync }

// inFlow says that all that waits for one workflow waits for the turn of its flow: a request, and with it what was held
// back. Whoever deletes a namespace brings about both for each of its machines. With something urgent of another object
// all goes at once.
func inFlow(list []*Delivery) bool {
	return slices.ContainsFunc(list, func(d *Delivery) bool { return d.FlowControlled }) &&
		!slices.ContainsFunc(list, (*Delivery).urgent)
}

// Held is how long all that waits for one workflow may go on waiting: until the first of it may not.
func Held(list []*Delivery, now time.Time) time.Duration {
	var wait time.Duration
	for i, d := range list {
		left := d.due().Sub(now)
		if d.Hold == 0 || left <= 0 {
			return 0
		}
		if i == 0 || left < wait {
			wait = left
		}
	}
	return wait
}

// Waits says since when a delivery waits.
func (d *Delivery) Waits(since time.Time) { d.since = since }

// At is a delivery as it is sent in an epoch. Again: one with its subject may have been lost.
func (d *Delivery) At(epoch int64, again bool) *Delivery {
	out := *d
	if o, ok := d.Payload.(contract.Repeatable); ok && again {
		out.Payload = o.SentAgain()
	}
	if o, ok := out.Payload.(contract.Observation); ok {
		out.Payload = o.At(epoch)
	}
	return &out
}
