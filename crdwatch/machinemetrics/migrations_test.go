package machinemetrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/kube"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

// migrationOf returns a migration of VMI a/web.
func migrationOf(
	name string, phase kubevirt.VirtualMachineInstanceMigrationPhase,
) *kubevirt.VirtualMachineInstanceMigration {
	return &kubevirt.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("uid-" + name)},
		Spec:       kubevirt.VirtualMachineInstanceMigrationSpec{VMIName: "web"},
		Status:     kubevirt.VirtualMachineInstanceMigrationStatus{Phase: phase},
	}
}

// TestMigrationMetrics: only the leader has them.
func TestMigrationMetrics(t *testing.T) {
	i := newTestInformers(t)
	registry := leading(t, i, NewMigrations)
	for name, phase := range map[string]kubevirt.VirtualMachineInstanceMigrationPhase{
		"new": kubevirt.MigrationPhaseUnset, "waits": kubevirt.MigrationPending, "waits2": kubevirt.MigrationPending,
		"scheduling": kubevirt.MigrationScheduling, "scheduled": kubevirt.MigrationScheduled,
		"prepares": kubevirt.MigrationPreparingTarget, "ready": kubevirt.MigrationTargetReady,
		"copies": kubevirt.MigrationRunning, "done": kubevirt.MigrationSucceeded, "broken": kubevirt.MigrationFailed,
	} {
		keep(t, i.Migrations.GetStore(), migrationOf(name, phase))
	}
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "i"}}
	at := func(seconds int64) *metav1.Time { t := metav1.Unix(seconds, 0); return &t }
	vmi.Status.NodeName = "n"
	vmi.Status.MigrationState = &kubevirt.VirtualMachineInstanceMigrationState{MigrationUID: "uid-done",
		StartTimestamp: at(1000), EndTimestamp: at(1003), Completed: true}
	keep(t, i.VMIs.GetStore(), vmi)
	failed := vmi.DeepCopy()
	failed.Name, failed.UID, failed.Status.MigrationState.MigrationUID = "b", "u2", "uid-broken"
	failed.Status.MigrationState.Failed = true
	keep(t, i.VMIs.GetStore(), failed)
	moving := vmi.DeepCopy()
	moving.Name, moving.UID, moving.Status.MigrationState.MigrationUID = "third", "u3", "uid-copies"
	moving.Status.MigrationState.EndTimestamp = nil
	keep(t, i.VMIs.GetStore(), moving)

	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP kubevirt_vmi_migration_end_time_seconds When the last migration of a VMI ended, in seconds since 1970.
# TYPE kubevirt_vmi_migration_end_time_seconds gauge
kubevirt_vmi_migration_end_time_seconds{migration_name="broken",name="b",namespace="a",node="n",status="failed"} 1003
kubevirt_vmi_migration_end_time_seconds{migration_name="done",name="web",namespace="a",node="n",status="succeeded"} 1003
# HELP kubevirt_vmi_migration_failed Migrations that have failed.
# TYPE kubevirt_vmi_migration_failed gauge
kubevirt_vmi_migration_failed{namespace="a",vmi="web",vmim="broken"} 1
# HELP kubevirt_vmi_migration_start_time_seconds When the last migration of a VMI began, in seconds since 1970.
# TYPE kubevirt_vmi_migration_start_time_seconds gauge
kubevirt_vmi_migration_start_time_seconds{migration_name="broken",name="b",namespace="a",node="n"} 1000
kubevirt_vmi_migration_start_time_seconds{migration_name="copies",name="third",namespace="a",node="n"} 1000
kubevirt_vmi_migration_start_time_seconds{migration_name="done",name="web",namespace="a",node="n"} 1000
# HELP kubevirt_vmi_migration_succeeded Migrations that have succeeded.
# TYPE kubevirt_vmi_migration_succeeded gauge
kubevirt_vmi_migration_succeeded{namespace="a",vmi="web",vmim="done"} 1
# HELP kubevirt_vmi_migrations_in_pending_phase Migrations in the phase pending.
# TYPE kubevirt_vmi_migrations_in_pending_phase gauge
kubevirt_vmi_migrations_in_pending_phase 2
# HELP kubevirt_vmi_migrations_in_running_phase Migrations in the phase running.
# TYPE kubevirt_vmi_migrations_in_running_phase gauge
kubevirt_vmi_migrations_in_running_phase 4
# HELP kubevirt_vmi_migrations_in_scheduling_phase Migrations in the phase scheduling.
# TYPE kubevirt_vmi_migrations_in_scheduling_phase gauge
kubevirt_vmi_migrations_in_scheduling_phase 1
# HELP kubevirt_vmi_migrations_in_unset_phase Migrations in the phase unset.
# TYPE kubevirt_vmi_migrations_in_unset_phase gauge
kubevirt_vmi_migrations_in_unset_phase 1
`)))
}

// TestMeasuresTimeToMigrationPhases: each once, though one update adds several.
func TestMeasuresTimeToMigrationPhases(t *testing.T) {
	m := NewMigrations(func() *watch.Informers { return nil })
	born := time.Unix(1000, 0)
	reached := func(phases ...kubevirt.VirtualMachineInstanceMigrationPhase) *kubevirt.VirtualMachineInstanceMigration {
		vmim := migrationOf("move", phases[len(phases)-1])
		vmim.CreationTimestamp = metav1.NewTime(born)
		for i, p := range phases {
			vmim.Status.PhaseTransitionTimestamps = append(vmim.Status.PhaseTransitionTimestamps,
				kubevirt.VirtualMachineInstanceMigrationPhaseTransitionTimestamp{Phase: p,
					PhaseTransitionTimestamp: metav1.NewTime(born.Add(time.Duration(3*i) * time.Second))})
		}
		return vmim
	}
	first := reached(kubevirt.MigrationPending)
	second := reached(kubevirt.MigrationPending, kubevirt.MigrationScheduling, kubevirt.MigrationScheduled)
	m.observe(reached(kubevirt.MigrationPhaseUnset), first)
	m.observe(first, second)
	m.observe(second, second)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Equal(t, "kubevirt_vmi_migration_phase_transition_time_from_creation_seconds", families[0].GetName())
	sums := map[string]float64{}
	for _, metric := range families[0].GetMetric() {
		require.Equal(t, uint64(1), metric.GetHistogram().GetSampleCount())
		require.Len(t, metric.GetHistogram().GetBucket(), 18)
		sums[metric.GetLabel()[0].GetValue()] = metric.GetHistogram().GetSampleSum()
	}
	require.Equal(t, map[string]float64{"Pending": 0, "Scheduling": 3, "Scheduled": 6}, sums)
}

// TestOnlyLeaderObservesPhases: only the leader observes phases, as the API server sends them.
func TestOnlyLeaderObservesPhases(t *testing.T) {
	server := fakekube.New(fakekube.Options{Namespaces: []string{"a"}})
	clients, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	kv, err := kube.New(server.Config())
	require.NoError(t, err)
	i, err := watch.NewInformers(clients, kv, "virtflow", "launcher:new")
	require.NoError(t, err)
	leader, other := NewMigrations(func() *watch.Informers { return i }),
		NewMigrations(func() *watch.Informers { return nil })
	require.NoError(t, leader.Follow(i))
	require.NoError(t, other.Follow(i))
	go i.Migrations.RunWithContext(t.Context())
	made := migrationOf("move", kubevirt.MigrationPhaseUnset)
	made.UID, made.ResourceVersion = "", ""
	_, err = fakekube.Put(server, made)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(i.Migrations.GetStore().ListKeys()) == 1 }, time.Minute,
		time.Millisecond)
	_, err = fakekube.Edit(server, "a", "move", "status", func(m *kubevirt.VirtualMachineInstanceMigration) {
		m.Status.Phase = kubevirt.MigrationPending
		m.Status.PhaseTransitionTimestamps = append(m.Status.PhaseTransitionTimestamps,
			kubevirt.VirtualMachineInstanceMigrationPhaseTransitionTimestamp{Phase: kubevirt.MigrationPending,
				PhaseTransitionTimestamp: metav1.Now()})
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return testutil.CollectAndCount(leader.transitions) == 1 }, time.Minute,
		time.Millisecond)
	require.Zero(t, testutil.CollectAndCount(other.transitions))
}
