package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/temporalclient"
)

// temporalSender delivers by signals.
type temporalSender struct {
	client client.Client
}

// NewSender returns a sender that uses a Temporal client.
func NewSender(c client.Client) Sender { return temporalSender{client: c} }

// Send signals the workflow, and starts it if the delivery has a Start and the workflow does not run.
func (s temporalSender) Send(ctx context.Context, d *Delivery) error {
	if d.Start == nil {
		err := s.client.SignalWorkflow(ctx, d.Workflow, "", d.Signal, d.Payload)
		switch {
		case err == nil:
			return nil
		case temporalclient.IgnoreAbsent(err) == nil:
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

// WaitProcessed queries the workflow: Temporal answers a query after the tasks that wait then.
func (s temporalSender) WaitProcessed(ctx context.Context, workflow string) error {
	_, err := s.client.QueryWorkflow(ctx, workflow, "", contract.QueryPlan)
	return err
}

// sendResult is the outcome of an attempt to send a delivery.
type sendResult int

const (
	sendDelivered sendResult = iota
	// sendAbsent: the workflow does not run, and only another delivery may start it.
	sendAbsent
	sendRetry
	// sendRequeueTail: Temporal refuses this delivery, but perhaps not the others of its workflow.
	sendRequeueTail
	sendDropped
)

// tooLarge has parts of the errors by which Temporal, or gRPC before it, reports that a payload is too large. No other
// error counts as permanent: an entity that has had too many signals continues as new, missing search attributes get
// registered, and so does a namespace that is not found.
var tooLarge = []string{"Blob data size exceeds limit", "message larger than max"}

// resultOf classifies the error of a delivery.
func resultOf(err error) sendResult {
	var invalid *serviceerror.InvalidArgument
	switch {
	case err == nil:
		return sendDelivered
	case errors.Is(err, ErrAbsent):
		return sendAbsent
	case slices.ContainsFunc(tooLarge, func(part string) bool { return strings.Contains(err.Error(), part) }):
		return sendDropped
	case errors.As(err, &invalid):
		return sendRequeueTail
	default:
		return sendRetry
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
