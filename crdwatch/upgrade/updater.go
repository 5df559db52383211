package upgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/rs/zerolog"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/time/rate"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/temporalclient"
)

const (
	// interval is the time between two passes.
	interval = 45 * time.Second
	// updateRate is how many workflows a second are asked to continue as new, and how many are examined or terminated.
	updateRate = 10
	// askedPause and askedPauseLongest bound the back-off of an entity that was asked to continue as new and still has
	// other logic, because control workers of another release run.
	askedPause, askedPauseLongest = time.Minute, 32 * time.Minute
	// divergedFor is how long a workflow has to be impossible to replay before it is terminated: during a rolling
	// upgrade, a worker that can replay it may take the next attempt.
	divergedFor = 2 * time.Minute
)

// Updater moves what runs to the logic of this release. It asks an entity whose run began with the logic of another
// release, older or newer, to continue as new, since the entity may be idle for months. It terminates a workflow that
// this release cannot replay: the entity that is started in its place reads from Kubernetes what was lost with it.
type Updater struct {
	temporal client.Client
	entities []string // workflow types
	// Two limiters, so that requests do not delay terminations. After a rollback, most running workflows are asked
	// again and again until those that cannot replay are terminated.
	askLimiter, endLimiter *rate.Limiter
	log                    zerolog.Logger
	backoff                *flowcontrol.Backoff // by workflow ID
	// diverged has since when a run is known not to replay, by run ID.
	diverged map[string]time.Time
	// isUnreported reports whether Temporal turned out not to report which workflows fail.
	isUnreported bool
	now          func() time.Time
}

// New returns an updater; entities are the workflow types that continue as new on request.
func New(temporal client.Client, entities []string, log zerolog.Logger) *Updater {
	return &Updater{
		temporal: temporal, entities: entities, log: log,
		askLimiter: rate.NewLimiter(updateRate, 1), endLimiter: rate.NewLimiter(updateRate, 1),
		backoff:  flowcontrol.NewBackOff(askedPause, askedPauseLongest),
		diverged: map[string]time.Time{}, now: time.Now,
	}
}

// Run asks and terminates, independently, until ctx ends.
func (u *Updater) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() {
		u.repeat(ctx, func(ctx context.Context) error { return u.continueAsNew(ctx, contract.Changes()) })
	})
	both.Go(func() { u.repeat(ctx, u.terminateUnreplayable) })
	both.Wait()
}

// repeat calls do at every interval, until ctx ends.
func (u *Updater) repeat(ctx context.Context, do func(context.Context) error) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := do(ctx); err != nil && ctx.Err() == nil {
			u.log.Warn().Err(err).Msg("failed to move workflows to the logic of this release; it will be retried")
		}
	}
}

// continueAsNew asks the entities that began with other changes than these to continue as new.
func (u *Updater) continueAsNew(ctx context.Context, changes []string) error {
	format := "(TemporalChangeVersion IS NULL OR TemporalChangeVersion != '%s')"
	if len(changes) == 0 {
		format = "TemporalChangeVersion IS NOT NULL AND TemporalChangeVersion != '%s'"
	}
	others := fmt.Sprintf(format, contract.ListedLogic(changes))
	asked := 0
	signal := func(e *workflowpb.WorkflowExecutionInfo) error {
		id := e.GetExecution().GetWorkflowId()
		if u.backoff.IsInBackOffSinceUpdate(id, u.now()) {
			return nil
		}
		if err := u.askLimiter.Wait(ctx); err != nil {
			return err
		}
		u.backoff.Next(id, u.now())
		asked++
		err := u.temporal.SignalWorkflow(ctx, id, e.GetExecution().GetRunId(), contract.SignalContinueAsNew, struct{}{})
		if temporalclient.IgnoreAbsent(err) != nil {
			return fmt.Errorf("asking %s to continue as new: %w", id, err)
		}
		return nil
	}
	err := temporalclient.EachRunning(ctx, u.temporal, u.entities, others, signal)
	u.backoff.GC()
	if asked > 0 {
		u.log.Info().Int("entities", asked).
			Msg("asked entities with the logic of another release to continue as new")
	}
	return err
}

// terminateUnreplayable terminates the workflows whose tasks have failed for divergedFor because the worker's logic is
// not what they began with. It signals an entity how its transition closed, because the entity may have continued as
// new since it opened the transition.
func (u *Updater) terminateUnreplayable(ctx context.Context) error {
	seen, listed := map[string]time.Time{}, false
	var failures []error
	const failing = "TemporalReportedProblems IS NOT NULL"
	types := contract.WorkflowTypes()
	err := temporalclient.EachRunning(ctx, u.temporal, types, failing, func(e *workflowpb.WorkflowExecutionInfo) error {
		listed = true
		run := e.GetExecution().GetRunId()
		since, known := u.diverged[run]
		diverges, err := u.isDiverged(ctx, e.GetExecution())
		switch {
		case err != nil: // keep what was known of it
			if known {
				seen[run] = since
			}
			failures = append(failures, err)
			return nil
		case !diverges:
			return nil
		case !known:
			since = u.now()
		}
		if seen[run] = since; u.now().Sub(since) >= divergedFor {
			failures = append(failures, u.terminate(ctx, e))
		}
		return nil
	})
	var invalid *serviceerror.InvalidArgument
	if !listed && errors.As(err, &invalid) {
		if !u.isUnreported {
			u.log.Warn().Msg("found a Temporal older than 1.30, which does not report which workflows fail: " +
				"those that this release cannot replay have to be terminated by hand")
		}
		u.isUnreported = true
		return nil
	}
	if err != nil { // keep what is known of those that were not listed
		maps.Copy(u.diverged, seen)
	} else {
		u.diverged = seen
	}
	return errors.Join(append(failures, err)...)
}

// terminate terminates a workflow that cannot be replayed, and signals its parent.
func (u *Updater) terminate(ctx context.Context, e *workflowpb.WorkflowExecutionInfo) error {
	id, run := e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId()
	u.log.Warn().Str("workflow", id).Str("run", run).Str("type", e.GetType().GetName()).
		Msg("terminated a workflow that this release cannot replay")
	const why = "the release that runs now cannot replay it"
	if err := u.temporal.TerminateWorkflow(ctx, id, run, why); temporalclient.IgnoreAbsent(err) != nil {
		return fmt.Errorf("terminating %s, which cannot be replayed: %w", id, err)
	}
	parent := e.GetParentExecution().GetWorkflowId()
	if parent == "" {
		return nil
	}
	closed := contract.TransitionClosed{ID: id, Error: "it was ended: " + why, ErrorType: contract.ErrorOutcomeUnknown}
	err := u.temporal.SignalWorkflow(ctx, parent, "", contract.SignalTransitionClosed, closed)
	if temporalclient.IgnoreAbsent(err) != nil {
		return fmt.Errorf("signalling %s that %s was terminated: %w", parent, id, err)
	}
	return nil
}

// isDiverged reports whether a run's last task failed because its worker's logic would not have written this history.
// The SDK reports that for the first attempt only. The later ones time out, and histories do not record them.
func (u *Updater) isDiverged(ctx context.Context, e *commonpb.WorkflowExecution) (bool, error) {
	if err := u.endLimiter.Wait(ctx); err != nil {
		return false, err
	}
	diverges, id := false, e.GetWorkflowId()
	events := u.temporal.GetWorkflowHistory(ctx, id, e.GetRunId(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if temporalclient.IgnoreAbsent(err) != nil {
			return false, fmt.Errorf("reading the history of %s: %w", id, err)
		}
		if err != nil {
			return false, nil //nolint:nilerr // it does not exist any more
		}
		switch event.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			diverges = false
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
			cause := event.GetWorkflowTaskFailedEventAttributes().GetCause()
			diverges = cause == enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR
		default:
		}
	}
	return diverges, nil
}
