package forward

import (
	"reflect"
	"sync"
	"time"

	"github.com/virtflow/virtflow/contract"
)

// outbox has the newest observation of one pod that the entity has not been sent yet, or none. It is safe for
// concurrent use.
type outbox struct {
	mu        sync.Mutex
	delivered *contract.DomainObservation
	at        time.Time // when that was sent (zero: by an earlier process)
	newest    *contract.DomainObservation
	repeat    bool      // newest is sent even if the entity was sent all of it
	due       time.Time // the end of newest's debounce
	fromAgent bool      // due is that of a change by the guest's agent
	budget    budget
	held      int
	changed   chan struct{} // of capacity 1: there may be something to send
}

func newOutbox(delivered *contract.DomainObservation) *outbox {
	return &outbox{delivered: delivered, budget: newBudget(), changed: make(chan struct{}, 1)}
}

// offer replaces what is to be sent. A debounce begins when the state was first offered, and for a change by the
// guest's agent with the first such change.
func (o *outbox) offer(d contract.DomainObservation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, word := time.Now(), isAgentChange(o.delivered, d)
	switch {
	case word && o.newest != nil && o.fromAgent:
	case Debounce(d) == 0 || o.newest == nil || o.newest.State != d.State:
		o.due = now.Add(o.budget.delay(o.delivered, d, now))
	}
	o.newest, o.fromAgent = &d, word
	o.dropKnown()
}

// endDebounce is how long the end of a guest is debounced: by then its pod has ended too, and mostly its entity.
const endDebounce = 5 * time.Second

// Debounce returns how long an observation waits for one that implies it: a guest that shuts down is off in a moment,
// and a guest that is off, or was killed, ends its pod, whose status has the reason. Sent by itself, it would cost one
// more workflow task.
func Debounce(d contract.DomainObservation) time.Duration {
	down := d.Reason == contract.ReasonShutdown || d.Reason == contract.ReasonDestroyed
	if d.State == contract.DomainShutdown || d.State == contract.DomainShutoff && down {
		return endDebounce
	}
	return 0
}

// wait returns how long what is to be sent still waits.
func (o *outbox) wait() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.newest == nil || o.held > 0 {
		return 0
	}
	return max(0, time.Until(o.due))
}

// suspend stops sending until resume: a call is under way whose answer has the observation itself.
func (o *outbox) suspend() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held++
}

// resume ends a suspend. delivered is what the entity has got by the call, or nil.
func (o *outbox) resume(delivered *contract.DomainObservation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held--
	if delivered != nil {
		o.recordDelivered(*delivered)
		if o.newest != nil && o.newest.Sequence <= delivered.Sequence {
			o.newest, o.repeat = nil, false
		}
	}
	o.dropKnown()
}

// redeliver has the entity sent again what it was sent since then.
func (o *outbox) redeliver(since time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.delivered == nil || o.at.Before(since) {
		return
	}
	if o.newest == nil {
		o.newest = o.delivered
	}
	o.repeat, o.due = true, time.Time{}
	o.dropKnown()
}

// nextDue returns what is to be sent, once its debounce has ended.
func (o *outbox) nextDue() (contract.DomainObservation, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.newest == nil || o.held > 0 {
		return contract.DomainObservation{}, false
	}
	return *o.newest, true
}

// recordSent records that the entity has been sent d; a newer observation may have come since.
func (o *outbox) recordSent(d contract.DomainObservation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if !o.repeat {
		o.budget.spend(o.delivered, d, now)
	}
	o.recordDelivered(d)
	o.repeat = false
	if n := o.newest; n != nil { // the newer one is another change by now
		o.due, o.fromAgent = now.Add(o.budget.delay(o.delivered, *n, now)), isAgentChange(o.delivered, *n)
	}
	o.dropKnown()
}

// recordDelivered records what the entity has. The launcher's sequence numbers decide, not the order of calls.
func (o *outbox) recordDelivered(d contract.DomainObservation) {
	if o.delivered == nil || o.delivered.Sequence <= d.Sequence {
		o.delivered, o.at = &d, time.Now()
	}
}

// dropKnown drops what the entity has already, and wakes the sender if something is left.
func (o *outbox) dropKnown() {
	if o.newest == nil {
		return
	}
	if !o.repeat && isKnown(o.delivered, *o.newest) {
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

// isKnown reports whether d has nothing new for an entity that was sent delivered (nil: nothing). The launcher's
// sequence number alone is nothing new.
func isKnown(delivered *contract.DomainObservation, d contract.DomainObservation) bool {
	if delivered == nil {
		return d.State == contract.DomainAbsent
	}
	was := *delivered
	was.Sequence = d.Sequence
	return reflect.DeepEqual(was, d)
}
