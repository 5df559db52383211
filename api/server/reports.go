package server

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.temporal.io/sdk/client"

	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	// reporters is how many reports are on their way to Temporal at once. All of one workflow go by one of them, in
	// their order.
	reporters = 4
	// reportQueue is how many reports wait for one of them: enough for a collection of some thousand objects.
	reportQueue = 1024
	// reportTimeout is how long one may take.
	reportTimeout = 2 * time.Second
	// reportDrain is how long a process that ends goes on sending what is queued.
	reportDrain = 3 * time.Second
)

// reports signals workflows behind the answers to the requests that are reported: no request waits for it. A report
// that finds its queue full, or that Temporal does not take, is dropped and counted, and the history has a name less.
// It is safe for concurrent use.
type reports struct {
	temporal client.Client
	log      zerolog.Logger
	dropped  *prometheus.CounterVec
	ctx      context.Context // of all signals
	cancel   context.CancelFunc
	done     sync.WaitGroup

	closing sync.RWMutex // held for writing to close the queues
	closed  bool
	queues  [reporters]chan report
}

type report struct {
	workflow string
	contract.RequestReport
}

// Reasons why a report is dropped.
const (
	droppedFull   = "queue-full"
	droppedEnding = "ending"
	droppedFailed = "signal-failed"
)

// newReports begins to send reports; close ends that.
func newReports(temporal client.Client, log zerolog.Logger, r prometheus.Registerer) *reports {
	out := &reports{temporal: temporal, log: log, dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "virtflow_reports_dropped_total",
		Help: "Reports of who deletes or scales an object that did not reach its workflow, by reason.",
	}, []string{"reason"})}
	r.MustRegister(out.dropped, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "virtflow_reports_queued",
		Help: "Reports of who deletes or scales an object that wait to be sent to its workflow.",
	}, out.queued))
	for _, reason := range []string{droppedFull, droppedEnding, droppedFailed} {
		out.dropped.WithLabelValues(reason)
	}
	out.ctx, out.cancel = context.WithCancel(context.Background())
	for i := range out.queues {
		queue := make(chan report, reportQueue)
		out.queues[i] = queue
		out.done.Go(func() {
			for o := range queue {
				out.signal(o)
			}
		})
	}
	return out
}

// Report implements admission.Reports. It never waits.
func (r *reports) Report(workflow string, what contract.RequestReport) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(workflow))
	r.closing.RLock()
	defer r.closing.RUnlock()
	if r.closed {
		r.dropped.WithLabelValues(droppedEnding).Inc()
		return
	}
	select {
	case r.queues[h.Sum32()%reporters] <- report{workflow, what}:
	default:
		r.dropped.WithLabelValues(droppedFull).Inc()
	}
}

func (r *reports) queued() float64 {
	n := 0
	for _, queue := range r.queues {
		n += len(queue)
	}
	return float64(n)
}

func (r *reports) signal(o report) {
	ctx, cancel := context.WithTimeout(r.ctx, reportTimeout)
	defer cancel()
	if err := r.temporal.SignalWorkflow(ctx, o.workflow, "", contract.SignalReportRequest,
		o.RequestReport); err != nil {
		r.dropped.WithLabelValues(droppedFailed).Inc()
		r.log.Debug().Err(err).Str("workflow_id", o.workflow).Str("operation", string(o.Operation)).
			Msg("who asked is not recorded")
	}
}

// close takes no more reports, and returns when all that are queued have been sent, or dropped after some time.
func (r *reports) close(limit time.Duration) {
	r.closing.Lock()
	if !r.closed {
		r.closed = true
		for _, queue := range r.queues {
			close(queue)
		}
	}
	r.closing.Unlock()
	late := time.AfterFunc(limit, r.cancel)
	defer late.Stop()
	r.done.Wait()
	r.cancel()
}
