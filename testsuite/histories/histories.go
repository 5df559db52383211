package histories

import (
	"context"
	"fmt"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// Each calls do with every event of each workflow, open or closed, that matches a visibility query in a Temporal
// namespace, one workflow after the other. Visibility has a short delay: a workflow that has just started may be
// missing.
func Each(
	ctx context.Context, c client.Client, namespace, query string,
	do func(workflow *common.WorkflowExecution, e *history.HistoryEvent),
) error {
	request := &workflowservice.ListWorkflowExecutionsRequest{Namespace: namespace, Query: query}
	for {
		page, err := c.ListWorkflow(ctx, request)
		if err != nil {
			return fmt.Errorf("listing workflows: %w", err)
		}
		for _, x := range page.GetExecutions() {
			workflow := x.GetExecution()
			events := c.GetWorkflowHistory(ctx, workflow.GetWorkflowId(), workflow.GetRunId(), false,
				enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
			for events.HasNext() {
				e, err := events.Next()
				if err != nil {
					return fmt.Errorf("reading the history of %s: %w", workflow.GetWorkflowId(), err)
				}
				do(workflow, e)
			}
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return nil
		}
	}
}

// Count counts events.
type Count struct {
	Events      int `json:"events"`
	Tasks       int `json:"tasks"`       // workflow tasks that were completed
	FailedTasks int `json:"failedTasks"` // workflow tasks that failed, or timed out after they had begun
	// Failures is FailedTasks by cause: the server's for a failure, the kind for a timeout.
	Failures map[string]int `json:"failures,omitempty"`
	// ScheduleToStartTimeouts is how many tasks timed out in a worker's sticky queue, and then went to the queue of all
	// workers. None of them had been started.
	ScheduleToStartTimeouts int `json:"scheduleToStartTimeouts,omitempty"`
	Signals                 int `json:"signals"`
}

// Add counts an event.
func (c *Count) Add(e *history.HistoryEvent) {
	c.Events++
	switch e.GetEventType() { //nolint:exhaustive // the others are events only
	case enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
		c.Tasks++
	case enums.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		c.fail(e.GetWorkflowTaskFailedEventAttributes().GetCause().String())
	case enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
		timeout := e.GetWorkflowTaskTimedOutEventAttributes().GetTimeoutType()
		if timeout == enums.TIMEOUT_TYPE_SCHEDULE_TO_START {
			c.ScheduleToStartTimeouts++
		} else {
			c.fail(timeout.String())
		}
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		c.Signals++
	}
}

func (c *Count) fail(cause string) {
	if c.Failures == nil {
		c.Failures = map[string]int{}
	}
	c.Failures[cause]++
	c.FailedTasks++
}
