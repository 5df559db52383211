package world

import (
	"context"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
)

// temporalClient answers what crdwatch's repair asks. Everything else is not there.
type temporalClient struct {
	client.Client
	world *World
}

// ListWorkflow lists the entities that run.
func (c temporalClient) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	out := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range c.world.workflows.names() {
		if !isTransition(c.world.workflows.runs[id].kind) {
			out.Executions = append(out.Executions, c.info(id))
		}
	}
	return out, nil
}

// DescribeWorkflowExecution tells of one that runs.
func (c temporalClient) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if c.world.workflows.closed(id) {
		return nil, serviceerror.NewNotFound("no workflow " + id)
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: c.info(id)}, nil
}

func (c temporalClient) info(id string) *workflowpb.WorkflowExecutionInfo {
	r := c.world.workflows.runs[id]
	fields := map[string]*commonpb.Payload{}
	for k, v := range r.attributes {
		if p, err := converter.GetDefaultDataConverter().ToPayload(v); err == nil {
			fields[k] = p
		}
	}
	return &workflowpb.WorkflowExecutionInfo{
		Execution:        &commonpb.WorkflowExecution{WorkflowId: id},
		Type:             &commonpb.WorkflowType{Name: r.kind},
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: fields},
	}
}
