package observe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

func migration(change func(*kubevirt.VirtualMachineInstanceMigration)) *kubevirt.VirtualMachineInstanceMigration {
	critical := kubevirt.PrioritySystemCritical
	vmim := &kubevirt.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "move", UID: "m", ResourceVersion: "7",
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("x", 3600))),
			Finalizers:        []string{contract.FinalizerMigration},
			Annotations: map[string]string{
				contract.AnnotationRequestedBy: "alice", contract.AnnotationEvacuation: "node1",
				contract.AnnotationWorkloadUpdate: "", contract.AnnotationUnschedulableTimeout: "60",
				contract.AnnotationPendingTimeout: "soon",
			},
		},
		Spec: kubevirt.VirtualMachineInstanceMigrationSpec{
			VMIName: "web", Priority: &critical,
		},
		Status: kubevirt.VirtualMachineInstanceMigrationStatus{Phase: kubevirt.MigrationPending},
	}
	if change != nil {
		change(vmim)
	}
	return vmim
}

func phase(p kubevirt.VirtualMachineInstanceMigrationPhase) func(*kubevirt.VirtualMachineInstanceMigration) {
	return func(m *kubevirt.VirtualMachineInstanceMigration) { m.Status.Phase = p }
}

func TestMigration(t *testing.T) {
	minute := int64(60)
	require.Equal(t, contract.MigrationObservation{
		UID: "m", ResourceVersion: "7", CreatedAt: time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC),
		Finalizers: []string{contract.FinalizerMigration}, VMIName: "web",
		Priority: "system-critical", Actor: "alice", Evacuates: "node1", WorkloadUpdate: true,
		UnschedulableSeconds: &minute, Phase: "Pending",
	}, Migration(migration(nil)))
	o := Migration(migration(func(m *kubevirt.VirtualMachineInstanceMigration) {
		m.Annotations, m.Spec.Priority = nil, nil
	}))
	require.False(t, o.WorkloadUpdate)
	require.Empty(t, o.Priority)
	require.Nil(t, o.UnschedulableSeconds)
}

// TestEntityOfMigrationKnowsItsStatus: a changed status is not a change for the migration's entity, since only the
// entity writes it.
func TestEntityOfMigrationKnowsItsStatus(t *testing.T) {
	at := Migration(migration(nil))
	require.True(t, SameMigration(at, Migration(migration(phase(kubevirt.MigrationRunning)))))
	require.False(t, SameMigration(at, Migration(migration(func(m *kubevirt.VirtualMachineInstanceMigration) {
		m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}))))
	require.False(t, SameMigration(at, Migration(migration(func(m *kubevirt.VirtualMachineInstanceMigration) {
		m.Finalizers = nil
	}))))
}

func TestMigrationIsClosedWithoutItsFinalizer(t *testing.T) {
	require.False(t, ClosedMigration(migration(phase(kubevirt.MigrationFailed))))
	require.True(t, ClosedMigration(migration(func(m *kubevirt.VirtualMachineInstanceMigration) {
		m.Status.Phase, m.Finalizers = kubevirt.MigrationSucceeded, []string{"example.com/other"}
	})))
	require.False(t, ClosedMigration(migration(func(m *kubevirt.VirtualMachineInstanceMigration) {
		m.Finalizers = nil
	})), "it has not ended: the webhook that adds the finalizer was bypassed")
}

func TestQueuedMigration(t *testing.T) {
	waits := Queued(migration(nil), "node1", 3)
	require.Equal(t, contract.QueuedMigration{
		Migration: contract.Object{Namespace: "a", Name: "move", UID: "m"}, ResourceVersion: "7",
		CreatedAt: time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC), VMIName: "web", Node: "node1",
		Priority: "system-critical", Open: 3,
	}, waits)
	require.True(t, SameQueued(waits, Queued(migration(phase("")), "node1", 2)))
	scheduling := Queued(migration(phase(kubevirt.MigrationScheduling)), "node1", 3)
	require.True(t, scheduling.Started)
	require.False(t, SameQueued(waits, scheduling))
	require.True(t, SameQueued(scheduling, Queued(migration(phase(kubevirt.MigrationRunning)), "node1", 3)))
	for _, p := range []kubevirt.VirtualMachineInstanceMigrationPhase{
		kubevirt.MigrationSucceeded, kubevirt.MigrationFailed,
	} {
		o := Queued(migration(phase(p)), "node1", 3)
		require.True(t, o.Ended && !o.Started, p)
		require.True(t, SameQueued(o, Queued(migration(phase(p)), "node2", 2)), "where its guest is now is not its business")
	}
	gone := QueuedGone(migration(nil))
	require.True(t, gone.Ended)
	require.Equal(t, "move", gone.Migration.Name)
}
