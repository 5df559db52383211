package diff

import (
	"context"
	"slices"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/virtflow/virtflow/crdwatch/delivery"
)

// queue keeps what it is given, the newest of each subject.
type queue struct {
	mu        sync.Mutex
	pending   map[string][]*delivery.Delivery // by workflow
	recorded  []*delivery.Delivery
	throttled int
}

func (q *queue) Put(d delivery.Delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.pending[d.Workflow]
	if i := slices.IndexFunc(list, d.Supersede); i >= 0 {
		list[i] = &d
	} else if d.Class == delivery.Record {
		q.recorded = append(q.recorded, &d)
	} else {
		q.pending[d.Workflow] = append(list, &d)
	}
}

func (q *queue) Throttle(context.Context, string) error {
	q.throttled++
	return nil
}

// outbox returns the queue of a differ of these tests.
func outbox(e *Differ) *queue { return e.queue.(*queue) }

// newTestResyncer returns that of a new leadership, with a differ of its own.
func newTestResyncer(d *Differ, c Clients) *Resyncer {
	return NewResyncer(New(d.informers, d.queue, d.metrics), c, unlimited(), zerolog.Nop())
}

// unlimited is the rate at which tests resync.
func unlimited() *rate.Limiter { return rate.NewLimiter(rate.Inf, 1) }
