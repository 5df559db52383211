package entity

import (
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// fixLogic asks for every change at the beginning of a run, which keeps its logic for as long as it lasts.
func fixLogic(ctx workflow.Context) {
	for _, id := range contract.Changes() {
		workflow.GetVersion(ctx, id, workflow.DefaultVersion, 1)
	}
}
