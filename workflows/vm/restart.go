package vm

import (
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Restart is Stop, then Start.
func Restart(ctx workflow.Context, in contract.TransitionInput) (contract.TransitionResult, error) {
	t := newTransition(ctx, in)
	if err := t.deleteInstance(ctx); err != nil {
		return ended(err)
	}
	made, err := t.createInstance(ctx)
	if err != nil {
		return ended(err)
	}
	return t.awaitRunning(ctx, made)
}
