package delivery

import (
	"maps"
	"slices"
	"time"

	"github.com/virtflow/virtflow/internal/temporalclient"
)

// redeliverPause is the time between two redeliveries of everything that was sent recently.
const redeliverPause = 10 * time.Second

// RecentlySent has the deliveries of the last minutes, the last one of each subject, that were sent or that their
// workflows knew. The zero value is empty.
type RecentlySent struct {
	bySubject map[subject]sentDelivery
	purged    time.Time
}

type sentDelivery struct {
	delivery *Delivery
	at       time.Time
	// mayBeLost: Temporal may have lost it.
	mayBeLost bool
}

// Add records a delivery, and drops those that are too old by now.
func (l *RecentlySent) Add(d *Delivery, now time.Time) {
	old, ok := l.bySubject[d.subject()]
	if ok && d.Merge != nil && now.Sub(old.at) < temporalclient.Forgotten {
		merged := *d
		merged.Payload = d.Merge(old.delivery.Payload, d.Payload)
		d = &merged
	}
	if ok && old.delivery.Class == Record && old.delivery.since.After(d.since) {
		d = old.delivery // it was recorded while the other one was being sent
	}
	if l.bySubject == nil {
		l.bySubject = map[subject]sentDelivery{}
	}
	l.bySubject[d.subject()] = sentDelivery{delivery: d, at: now, mayBeLost: old.mayBeLost && d.Class == Record}
	if now.Sub(l.purged) < temporalclient.Forgotten {
		return
	}
	l.purged = now
	maps.DeleteFunc(l.bySubject, func(_ subject, x sentDelivery) bool {
		return !x.mayBeLost && now.Sub(x.at) > 2*temporalclient.Forgotten
	})
}

// MayBeLost reports whether Temporal may have lost the last recorded delivery with this subject, and none was sent
// since.
func (l *RecentlySent) MayBeLost(d *Delivery) bool { return l.bySubject[d.subject()].mayBeLost }

// MarkLost marks and returns, oldest first, what a server may have lost to which the connection was lost at that time.
func (l *RecentlySent) MarkLost(at time.Time) []*Delivery {
	from := at.Add(-temporalclient.Forgotten)
	var found []sentDelivery
	for s, x := range l.bySubject {
		if !x.at.Before(from) {
			x.mayBeLost = true
			l.bySubject[s] = x
			found = append(found, x)
		}
	}
	slices.SortFunc(found, func(a, b sentDelivery) int { return a.at.Compare(b.at) })
	var out []*Delivery
	for _, x := range found {
		out = append(out, x.delivery)
	}
	return out
}
