package migration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

func TestMovesGuest(t *testing.T) {
	r := newRig(t)
	r.vmim.Connections = 4
	r.at(5500*time.Millisecond, func() {
		require.Equal(t, contract.MigrationRunning, r.status.Phase)
		require.Equal(t, "pod-s", r.status.State.SourcePod)
	})
	r.run()
	r.checkMoved()
	require.Equal(t, []contract.MigrationStage{contract.StageClaim, contract.StageHandOff, contract.StageCopying,
		contract.StageMoved}, r.stages())
	require.Equal(t, []string{"Pending", "Scheduling", "Scheduled", "PreparingTarget", "TargetReady", "Running",
		"Succeeded"}, r.phases())
	require.Equal(t, int64(140), r.stats.DowntimeMs)
	m := r.status.State
	require.Equal(t, "n1", m.SourceNode)
	require.Equal(t, "n2", m.TargetNode)
	require.Equal(t, "pod-t", m.TargetPod)
	require.Equal(t, "10.0.0.2", m.TargetAddress)
	require.Equal(t, 8188, m.TargetPort)
	require.Equal(t, "fast", m.PolicyName)
	require.True(t, m.Completed)
	require.False(t, m.Failed)
	require.Equal(t, []string{
		"Normal SuccessfulHandOver Migration target pod is ready for preparation by virt-handler.",
		"Normal SuccessfulMigration Source node reported migration succeeded",
	}, r.events)
	var result contract.MigrationSummary
	require.NoError(t, r.env.GetWorkflowResult(&result))
	require.Equal(t, contract.MigrationSummary{Phase: "Succeeded", SourceNode: "n1", TargetNode: "n2", Mode: "PreCopy",
		Stats: contract.MigrationStats{TotalMs: 3000, DowntimeMs: 140, Bytes: 1 << 20}}, result)
	require.Equal(t, int64(7*150), r.moves[0].CompletionSeconds, "of 1 GiB and 5 GB, in gigabytes rounded up")
	require.Equal(t, 4, r.moves[0].Configuration.Parallel)
	require.Equal(t, "virtflow/moves", r.moves[0].Network)
	require.LessOrEqual(t, r.patches, 4)
	require.Zero(t, r.count(contract.ActivityReadMigration), "nothing is read of a new one")
	for _, once := range []string{contract.ActivityCreateTargetPod, contract.ActivityOfferMigration,
		contract.ActivityPrepareTarget, contract.ActivityMigrateDomain, contract.ActivityConfigureMigration,
		contract.ActivityDeleteMigrationPod} {
		require.Equal(t, 1, r.count(once), once)
	}
}

// TestDetailsShowProgress: the details show the progress that the instance reported, until the copy has ended.
func TestDetailsShowProgress(t *testing.T) {
	s := seen()
	all := stages()
	for _, change := range all[:17] {
		change(&s)
		s.refresh(noon)
	}
	require.Equal(t, PhaseRunning, s.Phase)
	report := func(of string, remaining int64) {
		s.observeClaim(contract.ClaimObservation{Migration: "m", VMIUID: "i", Sequence: s.Claim.Sequence + 1,
			Stage: contract.StageCopying, State: contract.ClaimGiven, Phase: "Running",
			Progress: contract.MigrationProgress{UID: of, Total: 4 << 30, Remaining: remaining}})
	}
	details := func() string { return (&migration{state: s}).Details(entity.Plan{}) }
	require.NotContains(t, details(), "copied")
	report("other", 1<<30)
	require.NotContains(t, details(), "copied")
	report("m", 3<<30)
	require.Contains(t, details(), "25 % of 4.0 GiB copied, 3.0 GiB remaining")
	report("m", 1<<30)
	require.Contains(t, details(), "75 % of 4.0 GiB copied")
	for _, change := range all[17:19] {
		change(&s)
		s.refresh(noon)
	}
	require.Equal(t, PhaseSucceeded, s.Phase)
	require.NotContains(t, details(), "copied")
}
