package world

import (
	"context"
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/virtflow/virtflow/contract"
)

// temporalClient implements the calls that crdwatch makes, and no other.
type temporalClient struct {
	client.Client
	world *World
}

// ListWorkflow lists the entities that run.
func (c temporalClient) ListWorkflow(
	context.Context, *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	out := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range c.world.workflows.names() {
		if !isTransition(c.world.workflows.runs[id].kind) {
			out.Executions = append(out.Executions, info(id, c.world.workflows.runs[id]))
		}
	}
	return out, nil
}

// CountWorkflow counts the entities of one type that run.
func (c temporalClient) CountWorkflow(
	_ context.Context, in *workflowservice.CountWorkflowExecutionsRequest,
) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	out := &workflowservice.CountWorkflowExecutionsResponse{}
	for _, r := range c.world.workflows.runs {
		if strings.Contains(in.GetQuery(), "'"+r.kind+"'") {
			out.Count++
		}
	}
	return out, nil
}

// QueryWorkflowWithOptions returns the fencing token.
func (c temporalClient) QueryWorkflowWithOptions(
	_ context.Context, in *client.QueryWorkflowWithOptionsRequest,
) (*client.QueryWorkflowWithOptionsResponse, error) {
	token := c.world.workflows.token
	if in.WorkflowID != contract.FencingTokenID || token == (contract.FencingToken{}) {
		return nil, serviceerror.NewNotFound("no workflow " + in.WorkflowID)
	}
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(token)
	return &client.QueryWorkflowWithOptionsResponse{QueryResult: client.NewValue(payloads)}, err
}

// NewWithStartWorkflowOperation returns nothing: the workflow of the fencing token exists as soon as the token has a
// value.
func (temporalClient) NewWithStartWorkflowOperation(
	client.StartWorkflowOptions, any, ...any,
) client.WithStartWorkflowOperation {
	return nil
}

// UpdateWithStartWorkflow advances the fencing token.
func (c temporalClient) UpdateWithStartWorkflow(
	_ context.Context, in client.UpdateWithStartWorkflowOptions,
) (client.WorkflowUpdateHandle, error) {
	a, ok := in.UpdateOptions.Args[0].(contract.AdvanceInput)
	if token := c.world.workflows.token; !ok || a.From != token {
		return nil, fmt.Errorf("the fencing token is at %+v, not at %+v", token, a.From)
	}
	c.world.workflows.token = a.To
	return advanced{}, nil
}

// advanced is the handle of an Update that has advanced the token.
type advanced struct{ client.WorkflowUpdateHandle }

// Get returns nil.
func (advanced) Get(context.Context, any) error { return nil }

// DescribeWorkflowExecution describes a workflow that runs or has run.
func (c temporalClient) DescribeWorkflowExecution(
	_ context.Context, id, _ string,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	r, status := c.world.workflows.runs[id], enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	if r == nil {
		r, status = c.world.workflows.ended[id], enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	}
	if r == nil {
		return nil, serviceerror.NewNotFound("no workflow " + id)
	}
	described := info(id, r)
	described.Status = status
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: described}, nil
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
