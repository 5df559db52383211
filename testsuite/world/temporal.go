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
			out.Executions = append(out.Executions, info(id, c.world.workflows.runs[id]))
		}
	}
	return out, nil
}

// DescribeWorkflowExecution tells of one that runs or has run.
func (c temporalClient) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	r := c.world.workflows.runs[id]
	if r == nil {
		r = c.world.workflows.ended[id]
	}
	if r == nil {
		return nil, serviceerror.NewNotFound("no workflow " + id)
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info(id, r)}, nil
}

func info(id string, r *run) *workflowpb.WorkflowExecutionInfo {
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
