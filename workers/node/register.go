package node

import (
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	activities "github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
)

// RegisterActivities registers what a node's worker does under its contract names. The tests of testsuite/world use it
// too: what they let fail is all that is deployed.
func RegisterActivities(r worker.ActivityRegistry, a *activities.Activities) {
	for name, does := range map[string]any{
		contract.ActivityStartDomain:      a.StartDomain,
		contract.ActivityOperateDomain:    a.OperateDomain,
		contract.ActivityReportNode:       a.ReportNode,
		contract.ActivityOfferMigration:   a.OfferMigration,
		contract.ActivityPrepareTarget:    a.PrepareTarget,
		contract.ActivityMigrateDomain:    a.MigrateDomain,
		contract.ActivityAbortMigration:   a.AbortMigration,
		contract.ActivityAdjustMigration:  a.AdjustMigration,
		contract.ActivityFinishTarget:     a.FinishTarget,
		contract.ActivityWithdrawTarget:   a.WithdrawTarget,
		contract.ActivityInspectMigration: a.InspectMigration,
	} {
		r.RegisterActivityWithOptions(does, activity.RegisterOptions{Name: name})
	}
}
