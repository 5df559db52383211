package server

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/semaphore"

	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	// reporters is how many reports are on their way to Temporal at once. All of one workflow go by one of them, in their order.
	reporters = 4
	// reportsWaiting is how many wait for one of them; further ones are lost.
	reportsWaiting = 256
	// reportTimeout is how long one may take.
	reportTimeout = 2 * time.Second
	// A deletion waits so long for its own report, that it may arrive before what comes of the deletion, and so many wait at once: others, which
	// would take the reviews' places up, do not.
	reportWait    = 300 * time.Millisecond
	reportsWaited = reporters
	// reportsDrain is how long a process that ends goes on telling what it was told.
	reportsDrain = 3 * time.Second
)

// reports signals workflows, while those whose requests are reported go on. A report that is lost is counted: nothing waits for it, and history
// has a name less. It is safe for concurrent use.
type reports struct {
	temporal client.Client
	log      zerolog.Logger
	lost     prometheus.Counter
	ctx      context.Context // of all signals
	cancel   context.CancelFunc
	done     sync.WaitGroup

	ending sync.RWMutex // held for writing to end
	ended  bool
	queues [reporters]chan report
	waited *semaphore.Weighted
	wait   time.Duration
}

type report struct {
	workflow string
	contract.RequestReport
	gone chan struct{} // closed when it has been told, or lost
}

// newReports begins to wait for reports; end ends that.
func newReports(temporal client.Client, log zerolog.Logger, r prometheus.Registerer) *reports {
	lost := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "virtflow_reports_lost_total",
		Help: "Reports of who deletes or scales an object that did not reach its workflow: too many at once, or it could not be told.",
	})
	r.MustRegister(lost)
	out := &reports{temporal: temporal, log: log, lost: lost, waited: semaphore.NewWeighted(reportsWaited), wait: reportWait}
	out.ctx, out.cancel = context.WithCancel(context.Background())
	for i := range out.queues {
		queue := make(chan report, reportsWaiting)
		out.queues[i] = queue
		out.done.Go(func() {
			for o := range queue {
				out.signal(o)
				close(o.gone)
			}
		})
	}
	return out
}

// Report implements admission.Reports.
func (r *reports) Report(workflow string, what contract.RequestReport) {
	o := report{workflow, what, make(chan struct{})}
	if !r.put(o) {
		r.lost.Inc()
		return
	}
	if !r.waited.TryAcquire(1) {
		return
	}
	defer r.waited.Release(1)
	select {
	case <-o.gone:
	case <-time.After(r.wait):
	}
}

// put says whether there is room for a report.
func (r *reports) put(o report) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(o.workflow))
	r.ending.RLock()
	defer r.ending.RUnlock()
	if r.ended {
		return false
	}
	select {
	case r.queues[h.Sum32()%reporters] <- o:
		return true
	default:
		return false
	}
}

func (r *reports) signal(o report) {
	ctx, cancel := context.WithTimeout(r.ctx, reportTimeout)
	defer cancel()
	if err := r.temporal.SignalWorkflow(ctx, o.workflow, "", contract.SignalReportRequest, o.RequestReport); err != nil {
		r.lost.Inc()
		r.log.Debug().Err(err).Str("workflow_id", o.workflow).Str("operation", string(o.Operation)).Msg("who asked is not recorded")
	}
}

// end takes no more reports, and returns when all that wait have been told, or given up after some time.
func (r *reports) end(limit time.Duration) {
	r.ending.Lock()
	if !r.ended {
		r.ended = true
		for _, queue := range r.queues {
			close(queue)
		}
	}
	r.ending.Unlock()
	late := time.AfterFunc(limit, r.cancel)
	defer late.Stop()
	r.done.Wait()
	r.cancel()
}
