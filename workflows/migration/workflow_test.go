package migration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/contract"
)

func TestAGuestIsMoved(t *testing.T) {
	r := newRig(t)
	r.at(5500*time.Millisecond, func() {
		require.Equal(t, contract.MigrationRunning, r.status.Phase)
		require.Equal(t, "pod-s", r.status.State.SourcePod)
	})
	r.run()
	r.succeeded()
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
	require.Equal(t, int64(7*150), r.moves[0].CompletionSeconds, "of 1 GiB and 5 GB, in gigabytes rounded up")
	require.LessOrEqual(t, r.patches, 4)
	require.Zero(t, r.count(contract.ActivityReadMigration), "nothing is read of a new one")
	for _, once := range []string{contract.ActivityCreateTargetPod, contract.ActivityOfferMigration,
		contract.ActivityPrepareTarget, contract.ActivityMigrateDomain, contract.ActivityConfigureMigration,
		contract.ActivityDeleteMigrationPod} {
		require.Equal(t, 1, r.count(once), once)
	}
}
