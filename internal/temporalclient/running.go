package temporalclient

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// EachRunning calls do for each open workflow of these types that matches the query ("": for all). An error of one does
// not keep it from the others.
func EachRunning(
	ctx context.Context, c client.Client, types []string, query string,
	do func(*workflowpb.WorkflowExecutionInfo) error,
) error {
	all := fmt.Sprintf("ExecutionStatus = 'Running' AND WorkflowType IN ('%s')", strings.Join(types, "', '"))
	if query != "" {
		all += " AND " + query
	}
	var failures []error
	var page []byte
	for {
		answer, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query: all, PageSize: 500, NextPageToken: page,
		})
		if err != nil {
			return errors.Join(append(failures, fmt.Errorf("listing the open workflows: %w", err))...)
		}
		for _, e := range answer.GetExecutions() {
			if err := do(e); err != nil {
				failures = append(failures, err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if page = answer.GetNextPageToken(); len(page) == 0 {
			return errors.Join(failures...)
		}
	}
}

// IgnoreAbsent returns nil for the error of a workflow that has closed.
func IgnoreAbsent(err error) error {
	var absent *serviceerror.NotFound
	if errors.As(err, &absent) {
		return nil
	}
	return err
}
