package temporalclient

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

// Pollers is how many pollers of each kind a worker has: the SDK's default. It is set because the SDK otherwise scales
// them where Temporal's setting frontend.pollerAutoscalingAutoEnroll is on. One namespace's stop then waits behind all
// of another's, and a node has more polls than the gateway takes.
const Pollers = 2

const (
	// The back-off doubles from the first of these to the second.
	firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second
	// steadyTime is how long a worker must poll without a failure until the back-off starts over.
	steadyTime = time.Minute
	// checkTime bounds one check of Temporal.
	checkTime = 10 * time.Second
)

// errStopping is the reason why nothing is polled while a worker finishes its tasks.
var errStopping = errors.New("the process is stopping")

// Retry returns the back-off of attempts to reach Temporal: 100 ms at first, 5 s at most.
func Retry() wait.DelayFunc {
	b := wait.Backoff{Duration: firstPause, Factor: 2, Jitter: 0.2, Steps: math.MaxInt32, Cap: longestPause}
	return b.DelayWithReset(clock.RealClock{}, steadyTime)
}

// Polling keeps a worker of the SDK polling a task queue. The SDK ends a worker for good when its namespace is not
// found for two minutes, as when Temporal's database is gone; Polling then starts another one. It is safe for
// concurrent use.
type Polling struct {
	queue   string
	log     zerolog.Logger
	polling prometheus.Gauge
	ended   prometheus.Counter

	mu      sync.Mutex
	problem error // why nothing is polled; nil while a worker polls
}

// NewPolling returns a Polling of a task queue; nothing is polled before Run. reg may be nil.
func NewPolling(queue string, log zerolog.Logger, reg prometheus.Registerer) *Polling {
	labels := prometheus.Labels{"task_queue": queue}
	p := &Polling{
		queue: queue, log: log.With().Str("task_queue", queue).Logger(),
		problem: errors.New("no worker was started yet"),
		polling: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "virtflow_temporal_polling", ConstLabels: labels,
			Help: "1 while this process polls the task queue, otherwise 0.",
		}),
		ended: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "virtflow_temporal_workers_ended_total", ConstLabels: labels,
			Help: "Workers that Temporal's SDK has ended, and that were replaced.",
		}),
	}
	if reg != nil {
		reg.MustRegister(p.polling, p.ended)
	}
	return p
}

// Ready is a health check: it returns why nothing is polled.
func (p *Polling) Ready(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.problem != nil {
		return fmt.Errorf("task queue %s is not polled: %w", p.queue, p.problem)
	}
	return nil
}

// Run polls until ctx ends, then lets the worker finish its tasks. Before it starts a worker, check must succeed;
// newWorker makes one with its registrations, and with onFatal as its option OnFatalError.
func (p *Polling) Run(
	ctx context.Context, check func(context.Context) error, newWorker func(onFatal func(error)) worker.Worker,
) {
	_ = Retry().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if err := check(ctx); err != nil {
			p.set(err)
			return false, nil
		}
		p.runOne(ctx, newWorker)
		return false, nil
	})
}

// runOne runs one worker until ctx ends, or the worker does.
func (p *Polling) runOne(ctx context.Context, newWorker func(onFatal func(error)) worker.Worker) {
	fatal := newResult()
	w := newWorker(fatal.set)
	defer w.Stop() // even one that did not start: it holds a part of the workflow cache
	if err := w.Start(); err != nil {
		p.set(fmt.Errorf("starting a worker: %w", err))
		return
	}
	p.set(nil)
	select {
	case <-ctx.Done():
		p.set(errStopping)
	case err := <-fatal:
		p.ended.Inc()
		p.set(fmt.Errorf("the worker has ended: %w", err))
	}
}

// result keeps the first error that is set.
type result chan error

func newResult() result { return make(result, 1) }

func (r result) set(err error) {
	select {
	case r <- err:
	default:
	}
}

// set records whether a worker polls, and logs it when that changes.
func (p *Polling) set(problem error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.problem
	p.problem = problem
	switch {
	case problem == nil && before != nil:
		p.polling.Set(1)
		p.log.Info().Msg("polling")
	case problem != nil && (before == nil || before.Error() != problem.Error()):
		p.polling.Set(0)
		level := zerolog.WarnLevel
		if errors.Is(problem, errStopping) {
			level = zerolog.InfoLevel
		}
		p.log.WithLevel(level).Err(problem).Msg("stopped polling")
	}
}

// NamespaceExists returns an error unless Temporal answers and has the namespace.
func NamespaceExists(ctx context.Context, c client.Client, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	_, err := c.WorkflowService().
		DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("reading the Temporal namespace %s: %w", namespace, err)
	}
	return nil
}
