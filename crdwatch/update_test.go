package crdwatch

import (
	"context"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/time/rate"
)

// listing is a Temporal with some workflows, of which every query holds.
type listing struct {
	client.Client
	ids       []string
	histories map[string][]*historypb.HistoryEvent
	refused   error
	query     string
	did       []string
}

func (l *listing) ListWorkflow(
	_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	l.query = r.GetQuery()
	out := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range l.ids {
		out.Executions = append(out.Executions, &workflowpb.WorkflowExecutionInfo{
			Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: "run of " + id},
		})
	}
	return out, l.refused
}

func (l *listing) SignalWorkflow(_ context.Context, id, run, signal string, _ any) error {
	l.did = append(l.did, signal+" "+id+" "+run)
	if id == "closed" {
		return serviceerror.NewNotFound("workflow execution already completed")
	}
	return nil
}

func (l *listing) TerminateWorkflow(_ context.Context, id, run, _ string, _ ...any) error {
	l.did = append(l.did, "end "+id+" "+run)
	return nil
}

func (l *listing) GetWorkflowHistory(
	_ context.Context, id, _ string, _ bool, _ enumspb.HistoryEventFilterType,
) client.HistoryEventIterator {
	return &iterator{events: l.histories[id]}
}

type iterator struct{ events []*historypb.HistoryEvent }

func (i *iterator) HasNext() bool { return len(i.events) > 0 }

func (i *iterator) Next() (*historypb.HistoryEvent, error) {
	e := i.events[0]
	i.events = i.events[1:]
	return e, nil
}

func resyncerOf(t *testing.T, l *listing) *resyncer {
	t.Helper()
	d := newTestDiffer(t)
	return NewLeader(Options{Temporal: l, Log: zerolog.Nop()}, d.metrics, d.informers, d.queue, rate.Inf).resyncer
}

// TestEntitiesWithOtherLogicContinueAsNew, of a release before this one or after it.
func TestEntitiesWithOtherLogicContinueAsNew(t *testing.T) {
	l := &listing{ids: []string{"vm/a/web", "closed", "vmi/a/web"}}
	r := resyncerOf(t, l)
	const entities = "IN ('VirtualMachine', 'VirtualMachineInstance', 'ReplicaSet', 'Node') AND "
	require.NoError(t, r.continueAsNew(t.Context(), nil))
	require.True(t, strings.HasSuffix(l.query, entities+"TemporalChangeVersion IS NOT NULL"), l.query)
	l.did = nil
	require.NoError(t, r.continueAsNew(t.Context(), []string{"old", "newest"}))
	require.True(t, strings.HasSuffix(l.query,
		entities+"(TemporalChangeVersion IS NULL OR TemporalChangeVersion != 'logic:newest-1')"), l.query)
	require.Equal(t, []string{
		"continue-as-new vm/a/web run of vm/a/web", "continue-as-new closed run of closed",
		"continue-as-new vmi/a/web run of vmi/a/web",
	}, l.did)
}

// TestWhatCannotReplayIsEnded: only workflows whose last task failed for that reason, not those of which a bug or a busy worker is the reason.
func TestWhatCannotReplayIsEnded(t *testing.T) {
	completed := &historypb.HistoryEvent{EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED}
	failed := func(cause enumspb.WorkflowTaskFailedCause) *historypb.HistoryEvent {
		return &historypb.HistoryEvent{
			EventType: enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED,
			Attributes: &historypb.HistoryEvent_WorkflowTaskFailedEventAttributes{
				WorkflowTaskFailedEventAttributes: &historypb.WorkflowTaskFailedEventAttributes{Cause: cause},
			},
		}
	}
	diverged := failed(enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR)
	panicked := failed(enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE)
	l := &listing{
		ids: []string{"diverged", "healed", "panics", "times out"},
		histories: map[string][]*historypb.HistoryEvent{
			"diverged":  {completed, diverged},
			"healed":    {diverged, completed},
			"panics":    {completed, panicked},
			"times out": {completed},
		},
	}
	r := resyncerOf(t, l)
	require.NoError(t, r.endWhatCannotReplay(t.Context()))
	require.Equal(t, []string{"end diverged run of diverged"}, l.did)

	l.did, l.refused = nil, serviceerror.NewInvalidArgument("invalid search attribute: TemporalReportedProblems")
	require.NoError(t, r.endWhatCannotReplay(t.Context()), "an older Temporal")
	require.Empty(t, l.did)
	l.refused = serviceerror.NewUnavailable("no")
	require.Error(t, r.endWhatCannotReplay(t.Context()))
}
