package forward

import (
	"reflect"
	"sync"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// outbox holds what is to be told of one pod: at most the newest observation. It is safe for concurrent use.
type outbox struct {
	mu        sync.Mutex
	delivered *contract.DomainObservation
	at        time.Time // when that was told (zero: by an earlier process)
	newest    *contract.DomainObservation
	repeat    bool      // newest is sent even where the entity was told all of it
	due       time.Time // until then newest waits for what comes next
	held      int
	changed   chan struct{} // has room for one: there may be something to send
}

func newOutbox(delivered *contract.DomainObservation) *outbox {
	return &outbox{delivered: delivered, changed: make(chan struct{}, 1)}
}

// offer replaces what is to be sent. What may wait does so from when its state was first offered.
func (o *outbox) offer(d contract.DomainObservation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch hold := HoldOff(d); {
	case hold == 0:
		o.due = time.Time{}
	case o.newest == nil || o.newest.State != d.State:
		o.due = time.Now().Add(hold)
	}
	o.newest = &d
	o.settle()
}

// endHoldOff is how long the end of a guest is not told: by then its pod has ended, too, and its entity mostly with it.
const endHoldOff = 5 * time.Second

// HoldOff is how long an observation waits for more that says all: a guest that goes down is off in a moment, and one
// that has gone down, or was killed, ends its pod, whose status says why. Told by itself, it would have the entity do a
// workflow task more.
func HoldOff(d contract.DomainObservation) time.Duration {
	down := d.Reason == contract.ReasonShutdown || d.Reason == contract.ReasonDestroyed
	if d.State == contract.DomainShutdown || d.State == contract.DomainShutoff && down {
		return endHoldOff
	}
	return 0
}

// wait is how long what is to be sent still waits.
func (o *outbox) wait() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.newest == nil || o.held > 0 {
		return 0
	}
	return max(0, time.Until(o.due))
}

// hold keeps everything back until release: a call is under way whose answer will tell the entity itself.
func (o *outbox) hold() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held++
}

// release ends a hold. told is what the entity is told otherwise, or nil.
func (o *outbox) release(told *contract.DomainObservation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held--
	if told != nil {
		o.tell(*told)
		if o.newest != nil && o.newest.Sequence <= told.Sequence {
			o.newest, o.repeat = nil, false
		}
	}
	o.settle()
}

// again has the entity told once more what it was told since then.
func (o *outbox) again(since time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.delivered == nil || o.at.Before(since) {
		return
	}
	if o.newest == nil {
		o.newest = o.delivered
	}
	o.repeat, o.due = true, time.Time{}
	o.settle()
}

// next is what is to be sent, once it has waited.
func (o *outbox) next() (contract.DomainObservation, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.newest == nil || o.held > 0 {
		return contract.DomainObservation{}, false
	}
	return *o.newest, true
}

// sent notes that the entity has been told d; something newer may have come meanwhile.
func (o *outbox) sent(d contract.DomainObservation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tell(d)
	o.repeat = false
	o.settle()
}

// tell notes what the entity knows; it goes by the launcher's numbers, whatever comes last.
func (o *outbox) tell(d contract.DomainObservation) {
	if o.delivered == nil || o.delivered.Sequence <= d.Sequence {
		o.delivered, o.at = &d, time.Now()
	}
}

// settle drops what the entity knows already and wakes the sender when something is left.
func (o *outbox) settle() {
	if o.newest == nil {
		return
	}
	if !o.repeat && known(o.delivered, *o.newest) {
		o.newest = nil
		return
	}
	if o.held > 0 {
		return
	}
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// known says whether an entity that was told delivered (nil: nothing) learns nothing from d. A launcher's number for
// the change is no news in itself.
func known(delivered *contract.DomainObservation, d contract.DomainObservation) bool {
	if delivered == nil {
		return d.State == contract.DomainAbsent
	}
	was := *delivered
	was.Sequence = d.Sequence
	return reflect.DeepEqual(was, d)
}
