package crdwatch

import (
	"maps"
	"slices"
	"time"

	"github.com/virtflow/virtflow/internal/temporalclient"
)

// againPause lies between two times that all of that is sent again.
const againPause = 10 * time.Second

// Lately is what was sent in the last minutes, or was known, the last of each subject. At first it is empty.
type Lately struct {
	of     map[subject]sending
	purged time.Time
}

type sending struct {
	delivery *Delivery
	at       time.Time
	// lost says that Temporal may have lost it.
	lost bool
}

// Add keeps a delivery, and drops what is too old by now.
func (l *Lately) Add(d *Delivery, now time.Time) {
	old, ok := l.of[d.subject()]
	if ok && d.Merge != nil && now.Sub(old.at) < temporalclient.Forgotten {
		merged := *d
		merged.Payload = d.Merge(old.delivery.Payload, d.Payload)
		d = &merged
	}
	if ok && old.delivery.Known && old.delivery.since.After(d.since) {
		d = old.delivery // it came while the other one was on its way
	}
	if l.of == nil {
		l.of = map[subject]sending{}
	}
	l.of[d.subject()] = sending{delivery: d, at: now, lost: old.lost && d.Known}
	if now.Sub(l.purged) < temporalclient.Forgotten {
		return
	}
	l.purged = now
	maps.DeleteFunc(l.of, func(_ subject, x sending) bool {
		return !x.lost && now.Sub(x.at) > 2*temporalclient.Forgotten
	})
}

// MayBeLost says that Temporal may have lost what was kept last with the subject of a delivery, and that nothing was
// sent since.
func (l *Lately) MayBeLost(d *Delivery) bool { return l.of[d.subject()].lost }

// Lost lists what a server may have forgotten to which the connection was lost then, oldest first.
func (l *Lately) Lost(at time.Time) []*Delivery {
	from := at.Add(-temporalclient.Forgotten)
	var found []sending
	for s, x := range l.of {
		if !x.at.Before(from) {
			x.lost = true
			l.of[s] = x
			found = append(found, x)
		}
	}
	slices.SortFunc(found, func(a, b sending) int { return a.at.Compare(b.at) })
	var out []*Delivery
	for _, x := range found {
		out = append(out, x.delivery)
	}
	return out
}
