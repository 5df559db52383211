package server

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/virtflow/virtflow/contract"
)

const (
	// reporters is how many reports are sent to Temporal at once. One of them sends all reports of a workflow, in
	// order.
	reporters = 4
	// reportQueue is how many reports may wait for one of them: enough for a collection of some thousand objects.
	reportQueue = 1024
	// reportPatience is how long a report is tried, and reportPause the time between two attempts, each of which the
	// SDK repeats for some seconds. While Temporal is away the other reports wait in their queues, as do the deletions
	// of their objects.
	reportPatience = 5 * time.Minute
	reportPause    = time.Second
	// reportDrain is how long a process that shuts down continues to send queued reports.
	reportDrain = 3 * time.Second
)

// reports signals workflows after the answers to the requests that are reported: no request waits for it. A report that
// finds its queue full, or that Temporal does not accept, is dropped and counted: the workflow then attributes the
// deletion to the user who changed the object last. It is safe for concurrent use.
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
	droppedAbsent = "no-workflow"
)

// newReports starts to send reports; close ends that.
func newReports(temporal client.Client, log zerolog.Logger, r prometheus.Registerer) *reports {
	out := &reports{temporal: temporal, log: log, dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "virtflow_reports_dropped_total",
		Help: "Reports of who deletes or scales an object that did not reach its workflow, by reason.",
	}, []string{"reason"})}
	r.MustRegister(out.dropped, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "virtflow_reports_queued",
		Help: "Reports of who deletes or scales an object that wait to be sent to its workflow.",
	}, out.queueLength))
	for _, reason := range []string{droppedFull, droppedEnding, droppedFailed, droppedAbsent} {
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
	what.Asked = time.Now()
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

// queueLength returns how many reports wait in all queues, for the metric.
func (r *reports) queueLength() float64 {
	n := 0
	for _, queue := range r.queues {
		n += len(queue)
	}
	return float64(n)
}

// signal sends a report, and repeats it while another attempt may succeed.
func (r *reports) signal(o report) {
	ctx, cancel := context.WithTimeout(r.ctx, reportPatience)
	defer cancel()
	var err error
	_ = wait.PollUntilContextCancel(ctx, reportPause, true, func(ctx context.Context) (bool, error) {
		err = r.temporal.SignalWorkflow(ctx, o.workflow, "", contract.SignalReportRequest, o.RequestReport)
		return err == nil || isPermanent(err), nil
	})
	if err == nil {
		return
	}
	reason, level := droppedFailed, zerolog.WarnLevel
	var absent *serviceerror.NotFound
	switch {
	case errors.As(err, &absent):
		reason, level = droppedAbsent, zerolog.DebugLevel
	case r.ctx.Err() != nil:
		reason, level = droppedEnding, zerolog.DebugLevel
	}
	r.dropped.WithLabelValues(reason).Inc()
	r.log.WithLevel(level).Err(err).Str("workflow_id", o.workflow).Str("operation", string(o.Operation)).
		Msg("failed to report user of request to workflow")
}

// isPermanent reports whether another attempt would get the same error.
func isPermanent(err error) bool {
	switch serviceerror.ToStatus(err).Code() {
	case codes.NotFound, codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return true
	default:
		return false
	}
}

// close accepts no more reports, and returns when all queued ones have been sent, or dropped after some time.
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
