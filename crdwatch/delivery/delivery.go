package delivery

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
)

// Delivery is one observation on its way to one workflow.
type Delivery struct {
	Workflow string // workflow ID
	Signal   string
	UID      string // of the observed object
	Kind     Kind
	Payload  any
	// Start starts the workflow if it does not run; nil: the observation is dropped if the workflow does not run,
	// unless another delivery starts it.
	Start *Start
	// Merge makes one payload of two; nil: the newer one is enough.
	Merge func(before, after any) any
	Policy

	since time.Time
	// attempted: it is, or was, being sent, so that what is merged into it now is too late for it.
	attempted bool
}

// Start has what starts an entity workflow.
type Start struct {
	Type    string
	Input   contract.EntityInput
	Summary string
	Search  map[string]string // search attributes (keywords)
}

// ErrAbsent is the error for a workflow that does not run and that the delivery does not start.
var ErrAbsent = errors.New("the workflow does not run")

// Sender hands deliveries to Temporal.
type Sender interface {
	// Send returns nil when the workflow has the delivery, and ErrAbsent if the workflow does not run and is not to be
	// started.
	Send(ctx context.Context, d *Delivery) error
	// WaitProcessed returns when a workflow has processed what it was sent before.
	WaitProcessed(ctx context.Context, workflow string) error
}

// subject identifies what a delivery is about and for whom: of two deliveries with the same subject the later one is
// enough.
type subject struct{ workflow, signal, uid string }

func (d *Delivery) subject() subject { return subject{d.Workflow, d.Signal, d.UID} }

// Supersede reports whether d has the same subject as an older delivery and replaces it. If so, d takes what it must
// keep of the older one.
func (d *Delivery) Supersede(old *Delivery) bool {
	if d.subject() != old.subject() || old.Class == Record || d.Class == Record && old.attempted {
		return false
	}
	switch {
	case old.Class == Request, d.Class == Request && !old.isUrgent(): // what is urgent has left its flow, or had none
		d.Class = Request
	case d.Class != Resync, old.Class != Resync && !old.attempted:
		d.Class = Change
	}
	if !old.attempted {
		if d.Debounce > 0 || old.Debounce == 0 { // else the old one was debounced, not late
			d.since = old.since
		}
		d.Debounce = min(d.Debounce, old.Debounce) // the shorter debounce holds for both
	}
	if d.Merge != nil {
		d.Payload = d.Merge(old.Payload, d.Payload)
	}
	return true
}

// leaveFlow records that a flow no longer holds the delivery.
func (d *Delivery) leaveFlow() {
	if d.Class == Request { // else a sender may be reading it
		d.Class = Change
	}
}

// isEnd reports whether it is the end of a pod or an instance.
func (d *Delivery) isEnd() bool {
	switch o := d.Payload.(type) {
	case contract.PodObservation:
		return o.Gone
	case contract.VMIObservation:
		return o.Gone
	default:
		return false
	}
}

// due returns the end of its debounce. From then on it is late.
func (d *Delivery) due() time.Time { return d.since.Add(d.Debounce) }

// isUrgent reports whether it is a change that is not debounced.
func (d *Delivery) isUrgent() bool { return d.Policy == Policy{} }

// waitInFlow reports whether everything for one workflow waits in its flow: a request, and with it what is debounced.
// The deletion of a namespace causes both for each of its machines. If another object has something urgent for the
// workflow, everything is sent at once.
func waitInFlow(list []*Delivery) bool {
	return slices.ContainsFunc(list, func(d *Delivery) bool { return d.Class == Request }) &&
		!slices.ContainsFunc(list, (*Delivery).isUrgent)
}

// RemainingDebounce returns how long all deliveries for one workflow may still wait: until the first of them is due.
func RemainingDebounce(list []*Delivery, now time.Time) time.Duration {
	var wait time.Duration
	for i, d := range list {
		left := d.due().Sub(now)
		if d.Debounce == 0 || left <= 0 {
			return 0
		}
		if i == 0 || left < wait {
			wait = left
		}
	}
	return wait
}

// SetSince sets since when the delivery waits.
func (d *Delivery) SetSince(since time.Time) { d.since = since }

// At returns the delivery as it is sent in an epoch. Lost: one with its subject may have been lost.
func (d *Delivery) At(epoch int64, lost bool) *Delivery {
	out := *d
	if o, ok := d.Payload.(contract.Repeatable); ok && lost {
		out.Payload = o.SentAgain()
	}
	if o, ok := out.Payload.(contract.Observation); ok {
		out.Payload = o.At(epoch)
	}
	return &out
}
