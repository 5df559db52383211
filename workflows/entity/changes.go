package entity

import (
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// fixLogic asks for every change at the beginning of a run, and notes which ones there were.
func fixLogic(ctx workflow.Context) {
	changes := contract.Changes()
	if len(changes) == 0 {
		return
	}
	for _, id := range append(changes, contract.Logic(changes)) {
		workflow.GetVersion(ctx, id, workflow.DefaultVersion, 1)
	}
}
