package vm

import (
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Restart is Stop, then Start.
func Restart(ctx workflow.Context, in contract.TransitionInput) (contract.TransitionResult, error) {
	r, err := newTransition(ctx, in).restart(ctx)
	return entity.Reported(ctx, r, err)
}

func (t *transition) restart(ctx workflow.Context) (contract.TransitionResult, error) {
	if err := t.deleteInstance(ctx); err != nil {
		return ended(err)
	}
	made, err := t.createInstance(ctx)
	if err != nil {
		return ended(err)
	}
	return t.awaitRunning(ctx, made)
}
