package control

import (
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/activities/cluster"
	"github.com/virtflow/virtflow/activities/signals"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/drain"
	"github.com/virtflow/virtflow/workflows/migration"
	"github.com/virtflow/virtflow/workflows/migrationqueue"
	"github.com/virtflow/virtflow/workflows/node"
	"github.com/virtflow/virtflow/workflows/replicaset"
	"github.com/virtflow/virtflow/workflows/restoretoken"
	"github.com/virtflow/virtflow/workflows/vm"
	"github.com/virtflow/virtflow/workflows/vmi"
	"github.com/virtflow/virtflow/workflows/workloadupdate"
)

// RegisterWorkflows registers every workflow under its contract name. The replay tests use it too: what is replayed is
// what is deployed.
func RegisterWorkflows(r worker.WorkflowRegistry) {
	for name, w := range map[string]any{
		contract.WorkflowVM:        vm.Workflow,
		contract.WorkflowVMI:       vmi.Workflow,
		contract.WorkflowNode:      node.Workflow,
		contract.WorkflowStartVM:   vm.Start,
		contract.WorkflowStopVM:    vm.Stop,
		contract.WorkflowRestartVM: vm.Restart,

		contract.WorkflowFencingToken: restoretoken.Workflow,

		contract.WorkflowReplicaSet: replicaset.Workflow,
		contract.WorkflowReplicate:  replicaset.Replicate,

		contract.WorkflowMigration: migration.Workflow,
		contract.WorkflowDrain:     drain.Workflow,
		contract.WorkflowAdmission: migrationqueue.Workflow,

		contract.WorkflowWorkloadUpdate: workloadupdate.Workflow,
	} {
		r.RegisterWorkflowWithOptions(w, workflow.RegisterOptions{Name: name})
	}
}

// RegisterActivities registers the activities that talk to Kubernetes under their contract names.
func RegisterActivities(r worker.ActivityRegistry, a *cluster.Activities) {
	for name, f := range map[string]any{
		contract.ActivityReadVM:             a.ReadVM,
		contract.ActivityReadVMI:            a.ReadVMI,
		contract.ActivityCreateVMI:          a.CreateVMI,
		contract.ActivityDeleteVMI:          a.DeleteVMI,
		contract.ActivityPatchVM:            a.PatchVM,
		contract.ActivityCreateDataVolumes:  a.CreateDataVolumes,
		contract.ActivitySyncInstance:       a.SyncInstance,
		contract.ActivityFindPod:            a.FindLauncherPod,
		contract.ActivityReadPodWarning:     a.ReadPodWarning,
		contract.ActivityCreatePod:          a.CreateLauncherPod,
		contract.ActivityDeletePod:          a.DeleteLauncherPod,
		contract.ActivityRemovePodFinalizer: a.RemovePodFinalizer,
		contract.ActivityMarkPod:            a.MarkPodUnpaused,
		contract.ActivityPatchVMI:           a.PatchVMI,
		contract.ActivityPatchNode:          a.PatchNode,

		contract.ActivityFindReplicas:    a.FindReplicas,
		contract.ActivityClaimReplicas:   a.ClaimReplicas,
		contract.ActivityCreateReplicas:  a.CreateReplicas,
		contract.ActivityDeleteReplicas:  a.DeleteReplicas,
		contract.ActivityPatchReplicaSet: a.PatchReplicaSet,

		contract.ActivityReadMigration:      a.ReadMigration,
		contract.ActivityPatchMigration:     a.PatchMigration,
		contract.ActivityDeleteMigration:    a.DeleteMigration,
		contract.ActivityConfigureMigration: a.ConfigureMigration,
		contract.ActivityCreateTargetPod:    a.CreateTargetPod,
		contract.ActivityDeleteMigrationPod: a.DeleteMigrationPod,
		contract.ActivityReadLimits:         a.ReadMigrationLimits,

		contract.ActivityFindEvacuees:     a.FindEvacuees,
		contract.ActivityCreateMigrations: a.CreateMigrations,
		contract.ActivityDeleteMigrations: a.DeleteMigrations,
		contract.ActivityEvictPod:         a.EvictPod,
		contract.ActivityClearEvacuation:  a.ClearEvacuation,

		contract.ActivityFindOutdated:  a.FindOutdated,
		contract.ActivityMoveOutdated:  a.MoveOutdated,
		contract.ActivityEvictOutdated: a.EvictOutdated,
	} {
		r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// RegisterSignals registers what workflows say to each other within a workflow task.
func RegisterSignals(r worker.ActivityRegistry, s signals.Sender) {
	r.RegisterActivityWithOptions((&signals.Activities{Sender: s}).Signal,
		activity.RegisterOptions{Name: contract.ActivitySignal})
}
