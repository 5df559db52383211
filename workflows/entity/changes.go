package entity

import (
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
)

// begunWith is the search attribute in which Temporal keeps the change IDs of a run. Continue-As-New carries it over.
var begunWith = temporal.NewSearchAttributeKeyKeywordList("TemporalChangeVersion")

// fixLogic returns the logic that the run began with. Its first task records that in one marker, by the newest change:
// each change ID of an entity would cost a marker and a write of search attributes.
func fixLogic(ctx workflow.Context, changes []string) Logic {
	before, _ := workflow.GetTypedSearchAttributes(ctx).GetKeywordList(begunWith)
	if len(changes) == 0 && (len(before) == 0 || slices.Equal(before, []string{contract.ListedLogic(nil)})) {
		return Logic{}
	}
	for n := len(changes); n > 0; n-- {
		if workflow.GetVersion(ctx, contract.Logic(changes[:n]), workflow.DefaultVersion, 1) == 1 {
			return Logic{lacks: changes[n:]}
		}
	}
	workflow.GetVersion(ctx, contract.Logic(nil), workflow.DefaultVersion, 1)
	return Logic{lacks: changes}
}
