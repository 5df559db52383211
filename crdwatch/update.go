package crdwatch

import (
	"context"
	"errors"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// workflowsPerLook bounds how many workflows one look after an update touches: some ten a second.
const workflowsPerLook = 500

// update brings what runs to the logic of this release. An entity whose run began with that of another one, older or
// newer, and which may be idle for months, is asked to continue as new. A workflow that this release cannot replay is
// ended: what was lost with it is read from Kubernetes by the entity that is started in its place.
func (r *resyncer) update(ctx context.Context) error {
	return errors.Join(r.continueAsNew(ctx, contract.Changes()), r.endWhatCannotReplay(ctx))
}

// continueAsNew asks the entities that began with other changes than these to continue as new.
func (r *resyncer) continueAsNew(ctx context.Context, changes []string) error {
	others := "TemporalChangeVersion IS NOT NULL"
	if logic := contract.Logic(changes); logic != "" { // GetVersion writes change IDs with their version
		others = fmt.Sprintf("(TemporalChangeVersion IS NULL OR TemporalChangeVersion != '%s-1')", logic)
	}
	entities, err := r.running(ctx, entityTypes(), others)
	if err != nil {
		return fmt.Errorf("listing the workflows with the logic of another release: %w", err)
	}
	for _, e := range entities {
		if err := r.limiter.Wait(ctx); err != nil {
			return err
		}
		id, run := e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId()
		err := r.temporal.SignalWorkflow(ctx, id, run, contract.SignalContinueAsNew, struct{}{})
		if ignoreAbsent(err) != nil {
			return fmt.Errorf("asking %s to continue as new: %w", id, err)
		}
	}
	if len(entities) > 0 {
		r.log.Info().Int("entities", len(entities)).
			Msg("entities with the logic of another release were asked to continue as new")
	}
	return nil
}

// endWhatCannotReplay ends the workflows whose tasks fail because the worker's logic is not what they began with.
func (r *resyncer) endWhatCannotReplay(ctx context.Context) error {
	types := append(entityTypes(), contract.WorkflowStartVM, contract.WorkflowStopVM, contract.WorkflowRestartVM,
		contract.WorkflowReplicate)
	failing, err := r.running(ctx, types, "TemporalReportedProblems IS NOT NULL")
	var invalid *serviceerror.InvalidArgument
	if errors.As(err, &invalid) {
		return nil // a Temporal before 1.30 does not report problems
	}
	if err != nil {
		return fmt.Errorf("listing the workflows whose tasks fail: %w", err)
	}
	for _, e := range failing {
		id, run := e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId()
		diverged, err := r.diverged(ctx, id, run)
		if err != nil {
			return err
		}
		if !diverged {
			continue
		}
		r.log.Warn().Str("workflow", id).Str("run", run).Str("type", e.GetType().GetName()).
			Msg("this release cannot replay the workflow, and ends it")
		err = r.temporal.TerminateWorkflow(ctx, id, run, "the release that runs now cannot replay it; crdwatch starts it anew")
		if ignoreAbsent(err) != nil {
			return fmt.Errorf("ending %s, which cannot be replayed: %w", id, err)
		}
	}
	return nil
}

// diverged says whether a run's last task failed for a history that its worker's logic would not have written. The SDK
// reports that for the first attempt only: the others time out, of which histories say nothing.
func (r *resyncer) diverged(ctx context.Context, id, run string) (bool, error) {
	diverged := false
	events := r.temporal.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if ignoreAbsent(err) != nil {
			return false, fmt.Errorf("reading the history of %s: %w", id, err)
		}
		if err != nil {
			return false, nil //nolint:nilerr // it exists no more
		}
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			diverged = false
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
			cause := e.GetWorkflowTaskFailedEventAttributes().GetCause()
			diverged = cause == enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR
		default:
		}
	}
	return diverged, nil
}

// running are some of the open workflows of these types of which the query holds.
func (r *resyncer) running(ctx context.Context, types []string, query string) ([]*workflowpb.WorkflowExecutionInfo, error) {
	answer, err := r.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: workflowsPerLook,
		Query: fmt.Sprintf("ExecutionStatus = 'Running' AND WorkflowType IN ('%s') AND %s",
			strings.Join(types, "', '"), query),
	})
	return answer.GetExecutions(), err
}

func entityTypes() []string {
	return []string{contract.WorkflowVM, contract.WorkflowVMI, contract.WorkflowReplicaSet, contract.WorkflowNode}
}

// ignoreAbsent is nil for a workflow that has closed meanwhile.
func ignoreAbsent(err error) error {
	var absent *serviceerror.NotFound
	if errors.As(err, &absent) {
		return nil
	}
	return err
}
