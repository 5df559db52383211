package delivery

import (
	"context"
	"time"
)

// redeliverLost redelivers what Temporal has taken in the last minutes, whenever the connection to it was lost: a
// server that lost its last commits has lost them too. Redeliveries go behind everything else, no faster than control
// workers process them, and with a pause: a server that comes and goes counts as one loss.
func (o *Outbox) redeliverLost(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case lost := <-o.outages.Restored():
			n := 0
			for _, d := range o.markLost(lost) {
				if o.redeliveries.wait(ctx, d.Workflow) != nil {
					return
				}
				if o.redeliver(d) {
					n++
				}
			}
			o.log.Info().Time("lost", lost).Int("redelivered", n).
				Msg("redelivered observations after an outage of Temporal")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(redeliverPause):
		}
	}
}

func (o *Outbox) markLost(lost time.Time) []*Delivery {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.recentlySent.MarkLost(lost)
}

// redeliver queues what was sent before, and reports whether it did: not if something newer with that subject was sent
// since, or waits.
func (o *Outbox) redeliver(d *Delivery) bool {
	o.mu.Lock()
	last := o.recentlySent.bySubject[d.subject()]
	if !last.mayBeLost {
		o.mu.Unlock()
		return false
	}
	d = last.delivery
	again := *d
	again.Policy, again.attempted, again.since = Policy{Class: Resync}, false, time.Now()
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
