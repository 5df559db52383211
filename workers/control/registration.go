package control

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/internal/temporalclient"
)

const (
	// checkInterval is the time between checks of a healthy Temporal; each costs two small requests.
	checkInterval = 30 * time.Second
	// checkTime limits one check. A registration may take some ten seconds to reach every part of Temporal.
	checkTime = 30 * time.Second
)

// registration keeps the Temporal namespace registered with virtflow's search attributes for as long as the process
// runs: Temporal's database may be lost and be replaced by an empty one at any time. It is safe for concurrent use.
type registration struct {
	ensure func(context.Context) error
	log    zerolog.Logger
	good   prometheus.Gauge

	one     sync.Mutex // one check at a time
	mu      sync.Mutex
	problem error
}

func newRegistration(ensure func(context.Context) error, log zerolog.Logger, reg prometheus.Registerer) *registration {
	r := &registration{
		ensure: ensure, log: log, problem: errors.New("no answer of Temporal yet"),
		good: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "virtflow_temporal_reachable",
			Help: "1 while Temporal answers this process and has the namespace with its search attributes, otherwise 0.",
		}),
	}
	reg.MustRegister(r.good)
	return r
}

// run checks until ctx ends: at every interval while Temporal is healthy, more often while it is not. It calls report
// after each check, and between two checks also when changed receives, with the result of the last check.
func (r *registration) run(
	ctx context.Context, interval time.Duration, changed <-chan struct{},
	report func(ctx context.Context, problem error),
) {
	pause := temporalclient.Retry()
	for ctx.Err() == nil {
		report(ctx, r.check(ctx))
		delay := interval
		if r.Ready(ctx) != nil {
			delay = pause()
		}
		for due := time.After(delay); due != nil; {
			select {
			case <-ctx.Done():
				return
			case <-due:
				due = nil
			case <-changed:
				report(ctx, r.Ready(ctx))
			}
		}
	}
}

// check reads the registrations from Temporal, registers what is missing, and returns what is wrong then.
func (r *registration) check(ctx context.Context) error {
	r.one.Lock()
	defer r.one.Unlock()
	attempt, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	err := r.ensure(attempt)
	if ctx.Err() != nil {
		return ctx.Err() // the process ends: this is no error of Temporal
	}
	r.set(err)
	return err
}

func (r *registration) set(problem error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.problem
	r.problem = problem
	switch {
	case problem == nil && before != nil:
		r.good.Set(1)
		r.log.Info().Msg("connected to Temporal, which has the namespace")
	case problem != nil && (before == nil || before.Error() != problem.Error()):
		r.good.Set(0)
		r.log.Warn().Err(problem).Msg("failed to use Temporal")
	}
}

// Ready is a health check. It returns what was wrong at the last check.
func (r *registration) Ready(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem
}
