package control

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/virtflow/virtflow/activities/cluster"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/internal/temporalclient"
	"github.com/virtflow/virtflow/workflows/contract"
)

// stopTimeout is how long a stopping worker finishes what it has in hand. It is shorter than the pod's own grace period of 30 s.
const stopTimeout = 20 * time.Second

// Options are the settings of a control worker.
type Options struct {
	Temporal temporalclient.Options
	// MaxConcurrent bounds activities, and workflow tasks, at the same time in this process.
	MaxConcurrent int
	// CachedWorkflows is how many workflows stay in memory between their tasks; 0 replays each at every task.
	CachedWorkflows int
}

// Run registers the namespace, then works until ctx ends.
func Run(ctx context.Context, p *process.Process, o Options, activities *cluster.Activities) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("reading the host's name: %w", err)
	}
	ready := make(chan struct{})
	p.Health.AddReady("worker", func(context.Context) error {
		select {
		case <-ready:
			return nil
		default:
			return fmt.Errorf("not connected to Temporal yet")
		}
	})
	c, err := o.Temporal.Dial(ctx, p.Log, p.Registry, "control-worker@"+host)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := retry(ctx, p, func() error { return EnsureNamespace(ctx, c, o.Temporal.Namespace, p.Log) }); err != nil {
		return err
	}
	worker.SetStickyWorkflowCacheSize(o.CachedWorkflows)
	w := worker.New(c, contract.ControlTaskQueue, worker.Options{
		MaxConcurrentActivityExecutionSize:      o.MaxConcurrent,
		MaxConcurrentLocalActivityExecutionSize: o.MaxConcurrent,
		MaxConcurrentWorkflowTaskExecutionSize:  o.MaxConcurrent,
		WorkerStopTimeout:                       stopTimeout,
	})
	RegisterWorkflows(w)
	RegisterActivities(w, activities)
	if err := w.Start(); err != nil {
		return fmt.Errorf("starting the worker on queue %s: %w", contract.ControlTaskQueue, err)
	}
	close(ready)
	p.Log.Info().Str("queue", contract.ControlTaskQueue).Str("temporal_namespace", o.Temporal.Namespace).Msg("working")
	<-ctx.Done()
	w.Stop()
	return nil
}

// retry repeats set-up until it succeeds: a process that starts before Temporal is ready waits for it.
func retry(ctx context.Context, p *process.Process, do func() error) error {
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := do()
		if err == nil {
			return nil
		}
		p.Log.Warn().Err(err).Msg("setting up Temporal, trying again")
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}
