package control

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/internal/temporalclient"
)

// stopTimeout is how long a stopping worker finishes what it has in hand. It is shorter than the pod's own grace period
// of 30 s.
const stopTimeout = 20 * time.Second

// Options are the settings of a control worker.
type Options struct {
	Temporal temporalclient.Options
	// MaxConcurrent bounds what this process has in hand: as many workflow tasks at a time of each task queue, as many
	// local activities of each, and as many other activities. What is more than the machine can do at a time waits in
	// Temporal's queues, where waiting costs nothing and counts against no time limit of work; in hand it would only be
	// late, and late work is tried again.
	MaxConcurrent int
	// CachedWorkflows is how many workflows stay in memory between their tasks; 0 replays each at every task.
	CachedWorkflows int

	// interval is the time between checks of a healthy Temporal; 0: checkInterval.
	interval time.Duration
}

const (
	// concurrentPerCPU is for work that mostly waits for Temporal and the API server, which take most of the processor
	// time that a VM costs (docs/performance.md).
	concurrentPerCPU                = 8
	leastConcurrent, mostConcurrent = 16, 128
)

// DefaultMaxConcurrent is MaxConcurrent for a process that may use that many CPUs.
func DefaultMaxConcurrent(cpus int) int {
	return min(max(leastConcurrent, concurrentPerCPU*cpus), mostConcurrent)
}

// Kubernetes has the object in which a control worker shows whether it can work.
type Kubernetes struct {
	KubeVirt *kube.Client
	// Current returns the KubeVirt object as last seen, nil while there is none.
	Current func() *kubevirt.KubeVirt
	// Changed receives after each change of the object; nil: its status is up to date at the next check of Temporal.
	Changed <-chan struct{}
	// WithoutEffect returns the paths of its fields that are set and have no effect; nil: they are not reported.
	WithoutEffect func(*kubevirt.KubeVirt) ([]string, error)
}

// Run keeps the namespace registered and its queues polled until ctx ends, whatever becomes of Temporal meanwhile.
func Run(ctx context.Context, p *process.Process, o Options, activities *cluster.Activities, k Kubernetes) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("reading the host's name: %w", err)
	}
	pollings := map[string]*temporalclient.Polling{}
	for _, queue := range []string{contract.ControlTaskQueue, contract.TransitionTaskQueue} {
		pollings[queue] = temporalclient.NewPolling(queue, p.Log, p.Registry)
		p.Health.AddReady("worker of "+queue, pollings[queue].Ready)
	}
	c, err := o.Temporal.Dial(ctx, p.Log, p.Registry, "control-worker@"+host)
	if err != nil {
		return err
	}
	defer c.Close()
	r := newRegistration(func(ctx context.Context) error {
		return EnsureNamespace(ctx, c, o.Temporal.Namespace, p.Log)
	}, p.Log, p.Registry)
	p.Health.AddReady("temporal", r.Ready)
	shown := availability{client: k.KubeVirt, current: k.Current, withoutEffect: k.WithoutEffect, log: p.Log,
		now: time.Now}
	var all sync.WaitGroup
	defer all.Wait() // before the client is closed
	all.Go(func() { r.run(ctx, cmp.Or(o.interval, checkInterval), k.Changed, shown.report) })
	worker.SetStickyWorkflowCacheSize(o.CachedWorkflows)
	for queue, polling := range pollings {
		all.Go(func() {
			polling.Run(ctx, r.check, func(onFatal func(error)) worker.Worker {
				w := worker.New(c, queue, o.worker(queue, onFatal))
				RegisterWorkflows(w)
				RegisterActivities(w, activities)
				RegisterSignals(w, c)
				return w
			})
		})
	}
	return nil
}

func (o *Options) worker(queue string, onFatal func(error)) worker.Options {
	return worker.Options{
		LocalActivityWorkerOnly:                 queue != contract.ControlTaskQueue, // that has all other activities
		MaxConcurrentActivityExecutionSize:      o.MaxConcurrent,
		MaxConcurrentLocalActivityExecutionSize: o.MaxConcurrent,
		MaxConcurrentWorkflowTaskExecutionSize:  o.MaxConcurrent,
		MaxConcurrentWorkflowTaskPollers:        temporalclient.Pollers,
		MaxConcurrentActivityTaskPollers:        temporalclient.Pollers,
		WorkerStopTimeout:                       stopTimeout,
		OnFatalError:                            onFatal,
	}
}
