package crdwatch

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

	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	// updateRate is how many workflows a second are asked, and how many looked into or ended.
	updateRate = 10
	// An entity that was asked to continue as new and still has other logic, since control workers of another release
	// run, is asked again after a pause that doubles.
	askedPause, askedPauseLongest = time.Minute, 32 * time.Minute
	// divergedFor is how long a workflow has to be impossible to replay until it is ended: while a release is rolled
	// out, the next attempt may be that of a worker which can.
	divergedFor = 2 * time.Minute
)

// updater brings what runs to the logic of this release. An entity whose run began with that of another one, older or
// newer, and which may be idle for months, is asked to continue as new. A workflow that this release cannot replay is
// ended: what was lost with it is read from Kubernetes by the entity that is started in its place.
type updater struct {
	temporal client.Client
	entities []string // their workflow types
	// What is asked does not make wait what is to be ended: after a release was taken back, the first is most of what
	// runs, and is asked again and again until the second has ended.
	asking, ending *rate.Limiter
	log            zerolog.Logger
	asked          *flowcontrol.Backoff // by workflow ID
	// diverged says since when a run is known not to replay, by its ID.
	diverged map[string]time.Time
	// unreported says that Temporal was found not to report which workflows fail.
	unreported bool
	now        func() time.Time
}

func newUpdater(temporal client.Client, entities []string, log zerolog.Logger) *updater {
	return &updater{
		temporal: temporal, entities: entities, log: log,
		asking: rate.NewLimiter(updateRate, 1), ending: rate.NewLimiter(updateRate, 1),
		asked:    flowcontrol.NewBackOff(askedPause, askedPauseLongest),
		diverged: map[string]time.Time{}, now: time.Now,
	}
}

// run asks and ends, each by itself, until ctx ends.
func (u *updater) run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() {
		u.repeat(ctx, func(ctx context.Context) error { return u.continueAsNew(ctx, contract.Changes()) })
	})
	both.Go(func() { u.repeat(ctx, u.endWhatCannotReplay) })
	both.Wait()
}

// repeat does something now and again, until ctx ends.
func (u *updater) repeat(ctx context.Context, do func(context.Context) error) {
	ticker := time.NewTicker(LookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := do(ctx); err != nil && ctx.Err() == nil {
			u.log.Warn().Err(err).Msg("bringing workflows to the logic of this release, trying again later")
		}
	}
}

// continueAsNew asks the entities that began with other changes than these to continue as new.
func (u *updater) continueAsNew(ctx context.Context, changes []string) error {
	format := "(TemporalChangeVersion IS NULL OR TemporalChangeVersion != '%s')"
	if len(changes) == 0 {
		format = "TemporalChangeVersion IS NOT NULL AND TemporalChangeVersion != '%s'"
	}
	others := fmt.Sprintf(format, contract.ListedLogic(changes))
	asked := 0
	err := eachRunning(ctx, u.temporal, u.entities, others, func(e *workflowpb.WorkflowExecutionInfo) error {
		id := e.GetExecution().GetWorkflowId()
		if u.asked.IsInBackOffSinceUpdate(id, u.now()) {
			return nil
		}
		if err := u.asking.Wait(ctx); err != nil {
			return err
		}
		u.asked.Next(id, u.now())
		asked++
		err := u.temporal.SignalWorkflow(ctx, id, e.GetExecution().GetRunId(), contract.SignalContinueAsNew, struct{}{})
		if ignoreAbsent(err) != nil {
			return fmt.Errorf("asking %s to continue as new: %w", id, err)
		}
		return nil
	})
	u.asked.GC()
	if asked > 0 {
		u.log.Info().Int("entities", asked).
			Msg("entities with the logic of another release were asked to continue as new")
	}
	return err
}

// endWhatCannotReplay ends the workflows whose tasks have failed for a while because the worker's logic is not what
// they began with. An entity hears how its transition closed: it may have continued as new since it opened that.
func (u *updater) endWhatCannotReplay(ctx context.Context) error {
	seen, listed := map[string]time.Time{}, false
	var failures []error
	const failing = "TemporalReportedProblems IS NOT NULL"
	types := contract.WorkflowTypes()
	err := eachRunning(ctx, u.temporal, types, failing, func(e *workflowpb.WorkflowExecutionInfo) error {
		listed = true
		run := e.GetExecution().GetRunId()
		since, known := u.diverged[run]
		diverges, err := u.diverges(ctx, e.GetExecution())
		switch {
		case err != nil: // what was known of it still is
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
			failures = append(failures, u.end(ctx, e))
		}
		return nil
	})
	var invalid *serviceerror.InvalidArgument
	if !listed && errors.As(err, &invalid) {
		if !u.unreported {
			u.log.Warn().Msg("this Temporal, older than 1.30, does not report which workflows fail: those that this " +
				"release cannot replay have to be terminated by hand")
		}
		u.unreported = true
		return nil
	}
	if err != nil { // what it did not come to stays known
		maps.Copy(u.diverged, seen)
	} else {
		u.diverged = seen
	}
	return errors.Join(append(failures, err)...)
}

// end ends a workflow that cannot be replayed.
func (u *updater) end(ctx context.Context, e *workflowpb.WorkflowExecutionInfo) error {
	id, run := e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId()
	u.log.Warn().Str("workflow", id).Str("run", run).Str("type", e.GetType().GetName()).
		Msg("this release cannot replay the workflow, and ends it")
	const why = "the release that runs now cannot replay it"
	if err := u.temporal.TerminateWorkflow(ctx, id, run, why); ignoreAbsent(err) != nil {
		return fmt.Errorf("ending %s, which cannot be replayed: %w", id, err)
	}
	parent := e.GetParentExecution().GetWorkflowId()
	if parent == "" {
		return nil
	}
	closed := contract.TransitionClosed{ID: id, Error: "it was ended: " + why, ErrorType: contract.ErrorOutcomeUnknown}
	err := u.temporal.SignalWorkflow(ctx, parent, "", contract.SignalTransitionClosed, closed)
	if ignoreAbsent(err) != nil {
		return fmt.Errorf("telling %s that %s was ended: %w", parent, id, err)
	}
	return nil
}

// diverges says whether a run's last task failed for a history that its worker's logic would not have written. The SDK
// reports that for the first attempt only: the others time out, of which histories say nothing.
func (u *updater) diverges(ctx context.Context, e *commonpb.WorkflowExecution) (bool, error) {
	if err := u.ending.Wait(ctx); err != nil {
		return false, err
	}
	diverges, id := false, e.GetWorkflowId()
	events := u.temporal.GetWorkflowHistory(ctx, id, e.GetRunId(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if ignoreAbsent(err) != nil {
			return false, fmt.Errorf("reading the history of %s: %w", id, err)
		}
		if err != nil {
			return false, nil //nolint:nilerr // it exists no more
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
