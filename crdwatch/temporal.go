package crdwatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/workflows/contract"
)

// temporalSender delivers by signals.
type temporalSender struct {
	client client.Client
}

// NewSender delivers through a Temporal client.
func NewSender(c client.Client) Sender { return temporalSender{client: c} }

// Send signals the workflow, and starts it where that is wanted and it does not run.
func (s temporalSender) Send(ctx context.Context, d *Delivery) error {
	if d.Start == nil {
		err := s.client.SignalWorkflow(ctx, d.Workflow, "", d.Signal, d.Payload)
		switch {
		case err == nil:
			return nil
		case ignoreAbsent(err) == nil:
			return ErrAbsent
		default:
			return fmt.Errorf("signalling: %w", err)
		}
	}
	_, err := s.client.SignalWithStartWorkflow(ctx, d.Workflow, d.Signal, d.Payload, client.StartWorkflowOptions{
		ID:                    d.Workflow,
		TaskQueue:             contract.ControlTaskQueue,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		StaticSummary:         d.Start.Summary,
		TypedSearchAttributes: searchAttributes(d.Start.Search),
		Priority: temporal.Priority{ // its activities inherit it
			PriorityKey: contract.PriorityKey(d.Start.Input.Namespace),
			FairnessKey: contract.FairnessKey(d.Start.Input.Namespace, d.Start.Type),
		},
	}, d.Start.Type, d.Start.Input)
	if err != nil {
		return fmt.Errorf("signalling, or starting with the signal: %w", err)
	}
	return nil
}

// consequence is what follows from the outcome of a delivery.
type consequence int

const (
	delivered consequence = iota
	// absent: nobody is there whom it concerns, unless another delivery starts the workflow.
	absent
	retried
	// retriedBehind: refused as it stands, which the others of its workflow may not be.
	retriedBehind
	dropped
)

// Parts of the errors by which Temporal, or gRPC before it, says that a payload is too large. No other error is
// believed to last: an entity that has had too many signals continues as new, missing search attributes get registered,
// a namespace that is not found gets registered.
var tooLarge = []string{"Blob data size exceeds limit", "message larger than max"} //nolint:gochecknoglobals // a constant

func consequenceOf(err error) consequence {
	var invalid *serviceerror.InvalidArgument
	switch {
	case err == nil:
		return delivered
	case errors.Is(err, ErrAbsent):
		return absent
	case slices.ContainsFunc(tooLarge, func(part string) bool { return strings.Contains(err.Error(), part) }):
		return dropped
	case errors.As(err, &invalid):
		return retriedBehind
	default:
		return retried
	}
}

func searchAttributes(values map[string]string) temporal.SearchAttributes {
	var updates []temporal.SearchAttributeUpdate
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if values[name] != "" {
			updates = append(updates,
				temporal.NewSearchAttributeKeyKeyword(name).ValueSet(contract.Keyword(values[name])))
		}
	}
	return temporal.NewSearchAttributes(updates...)
}

// eachRunning does something with each open workflow of these types of which the query holds ("": of all). What fails
// does not keep the others from being done.
func eachRunning(
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

// ignoreAbsent is nil for a workflow that has closed meanwhile.
func ignoreAbsent(err error) error {
	var absent *serviceerror.NotFound
	if errors.As(err, &absent) {
		return nil
	}
	return err
}
