package restoretoken

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
)

// advancesPerRun bounds the history of a run: an advance is five events.
const advancesPerRun = 100

// Workflow keeps the token, and continues as new after some advances.
func Workflow(ctx workflow.Context, in contract.FencingInput) error {
	token, advances := in.Token, 0
	err := workflow.SetQueryHandler(ctx, contract.QueryFencingToken, func() (contract.FencingToken, error) {
		return token, nil
	})
	if err != nil {
		return fmt.Errorf("setting the query handler: %w", err)
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, contract.UpdateAdvance,
		func(_ workflow.Context, a contract.AdvanceInput) (contract.FencingToken, error) {
			token = a.To
			advances++
			return token, nil
		},
		workflow.UpdateHandlerOptions{Validator: func(a contract.AdvanceInput) error { return refuse(token, a) }})
	if err != nil {
		return fmt.Errorf("setting the update handler: %w", err)
	}
	err = workflow.Await(ctx, func() bool { return advances >= advancesPerRun && workflow.AllHandlersFinished(ctx) })
	if err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(ctx, contract.WorkflowFencingToken, contract.FencingInput{Token: token})
}

// refuse returns why the token cannot advance that way; nil: it can.
func refuse(token contract.FencingToken, a contract.AdvanceInput) error {
	switch {
	case a.From != token:
		return fmt.Errorf("fencing token: it is at %+v, not at %+v: another process has moved it", token, a.From)
	case a.To.Compare(a.From) <= 0:
		return fmt.Errorf("fencing token: %+v is not greater than %+v", a.To, a.From)
	default:
		return nil
	}
}
