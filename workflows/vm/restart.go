package vm

import (
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Restart is Stop, then Start.
func Restart(ctx workflow.Context, in contract.TransitionInput) (contract.TransitionResult, error) {
	r, err := newTransition(ctx, in).restart(ctx)
	return entity.ReportOutcome(ctx, r, err)
}

func (t *transition) restart(ctx workflow.Context) (contract.TransitionResult, error) {
	if err := t.deleteInstance(ctx); err != nil {
		return resultOf(err)
	}
	made, err := t.createInstance(ctx)
	if err != nil {
		return resultOf(err)
	}
	return t.awaitRunning(ctx, made)
}
