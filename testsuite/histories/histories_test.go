package histories

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"
)

func page(next string, ids ...string) *workflowservice.ListWorkflowExecutionsResponse {
	p := &workflowservice.ListWorkflowExecutionsResponse{NextPageToken: []byte(next)}
	for _, id := range ids {
		p.Executions = append(p.Executions, &workflow.WorkflowExecutionInfo{
			Execution: &common.WorkflowExecution{WorkflowId: id, RunId: "run"}})
	}
	return p
}

func asked(token string) any {
	return mock.MatchedBy(func(r *workflowservice.ListWorkflowExecutionsRequest) bool {
		return r.GetNamespace() == "virtflow" && r.GetQuery() == "query" && string(r.GetNextPageToken()) == token
	})
}

// events mocks the history of a workflow, after which reading may fail.
func events(c *mocks.Client, id string, fails error, types ...enums.EventType) {
	it := &mocks.HistoryEventIterator{}
	for _, of := range types {
		it.On("HasNext").Return(true).Once()
		it.On("Next").Return(&history.HistoryEvent{EventType: of}, nil).Once()
	}
	if fails != nil {
		it.On("HasNext").Return(true).Once()
		it.On("Next").Return(nil, fails).Once()
	}
	it.On("HasNext").Return(false)
	c.On("GetWorkflowHistory", mock.Anything, id, "run", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Return(it)
}

func TestCountsAllPages(t *testing.T) {
	c := &mocks.Client{}
	c.On("ListWorkflow", mock.Anything, asked("")).Return(page("more", "a", "b"), nil).Once()
	c.On("ListWorkflow", mock.Anything, asked("more")).Return(page("", "c"), nil).Once()
	events(c, "a", nil, enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
		enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
	events(c, "b", nil, enums.EVENT_TYPE_WORKFLOW_TASK_FAILED)
	events(c, "c", nil, enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT, enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED)
	var count Count
	of := map[string]int{}
	require.NoError(t, Each(t.Context(), c, "virtflow", "query",
		func(workflow *common.WorkflowExecution, e *history.HistoryEvent) {
			of[workflow.GetWorkflowId()]++
			count.Add(e)
		}))
	require.Equal(t, map[string]int{"a": 3, "b": 1, "c": 2}, of)
	require.Equal(t, Count{Events: 6, Tasks: 1, FailedTasks: 2, Failures: map[string]int{"Unspecified": 2}, Signals: 2},
		count)

	for kind, want := range map[enums.TimeoutType]Count{
		enums.TIMEOUT_TYPE_SCHEDULE_TO_START: {Events: 1, ScheduleToStartTimeouts: 1},
		enums.TIMEOUT_TYPE_START_TO_CLOSE:    {Events: 1, FailedTasks: 1, Failures: map[string]int{"StartToClose": 1}},
	} {
		var one Count
		one.Add(&history.HistoryEvent{EventType: enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
			Attributes: &history.HistoryEvent_WorkflowTaskTimedOutEventAttributes{
				WorkflowTaskTimedOutEventAttributes: &history.WorkflowTaskTimedOutEventAttributes{TimeoutType: kind}}})
		require.Equal(t, want, one)
	}
}

func TestReadErrors(t *testing.T) {
	away, none := errors.New("away"), func(*common.WorkflowExecution, *history.HistoryEvent) {}
	c := &mocks.Client{}
	c.On("ListWorkflow", mock.Anything, asked("")).Return(nil, away).Once()
	require.ErrorIs(t, Each(t.Context(), c, "virtflow", "query", none), away)
	c.On("ListWorkflow", mock.Anything, asked("")).Return(page("", "a"), nil).Once()
	events(c, "a", away, enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED)
	require.ErrorContains(t, Each(t.Context(), c, "virtflow", "query", none), "the history of a: away")
}
