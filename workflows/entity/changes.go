package entity

import (
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// begunWith is the search attribute in which Temporal keeps the change IDs of a run. Continue-As-New hands it on.
var begunWith = temporal.NewSearchAttributeKeyKeywordList("TemporalChangeVersion")

// fixLogic asks for every change at the beginning of a run, and notes which ones there were.
func fixLogic(ctx workflow.Context) {
	changes := contract.Changes()
	before, _ := workflow.GetTypedSearchAttributes(ctx).GetKeywordList(begunWith)
	if len(changes) == 0 && (len(before) == 0 || slices.Equal(before, []string{contract.ListedLogic(nil)})) {
		return
	}
	for _, id := range append(changes, contract.Logic(changes)) {
		workflow.GetVersion(ctx, id, workflow.DefaultVersion, 1)
	}
}
