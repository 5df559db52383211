package diff

import (
	"testing"

	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
)

// migrationOf returns a migration of VMI a/web, which is on node1.
func migrationOf(
	name string, phase kubevirt.VirtualMachineInstanceMigrationPhase,
) *kubevirt.VirtualMachineInstanceMigration {
	return &kubevirt.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "5",
			Finalizers: []string{contract.FinalizerMigration}},
		Spec:   kubevirt.VirtualMachineInstanceMigrationSpec{VMIName: "web"},
		Status: kubevirt.VirtualMachineInstanceMigrationStatus{Phase: phase},
	}
}

func keep[T any](t *testing.T, store interface{ Add(any) error }, o T) T {
	t.Helper()
	require.NoError(t, store.Add(o))
	return o
}

// migrated returns a running VMI on node1 with a migration.
func migrated(t *testing.T, d *Differ) (
	*kubevirt.VirtualMachineInstance, *corev1.Pod, *kubevirt.VirtualMachineInstanceMigration,
) {
	t.Helper()
	vmi, pod, _ := instanceOnNode(t, d)
	vmi.Status.NodeName = "node1"
	keep(t, d.informers.VMIs.GetStore(), vmi)
	return vmi, pod, keep(t, d.informers.Migrations.GetStore(), migrationOf("move", kubevirt.MigrationPending))
}

// targetPod returns the pod that a migration has made for VMI a/web.
func targetPod(vmi *kubevirt.VirtualMachineInstance, move string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "target", UID: "t", Finalizers: []string{contract.FinalizerPod},
			OwnerReferences: controlledBy(vmi, "VirtualMachineInstance"),
			Labels:          map[string]string{contract.LabelMigration: "uid-" + move},
			Annotations:     map[string]string{contract.AnnotationMigrationName: move},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// lastQueued returns the last observation that waits for the queue, and how many wait.
func lastQueued(t *testing.T, d *Differ) (o contract.QueuedMigration, n int) {
	t.Helper()
	all := outbox(d).pending[contract.AdmissionID]
	if len(all) > 0 {
		last, ok := all[len(all)-1].Payload.(contract.QueuedMigration)
		require.True(t, ok)
		o = last
	}
	return o, len(all)
}

// TestSendsMigrationsToQueue: a migration that has not ended starts the queue, and the observation has what its
// decisions depend on.
func TestSendsMigrationsToQueue(t *testing.T) {
	d := newTestDiffer(t)
	vmi, _, vmim := migrated(t, d)
	keep(t, d.informers.Migrations.GetStore(), migrationOf("ended", kubevirt.MigrationFailed))
	move := d.entities.migration
	set := func(phase kubevirt.VirtualMachineInstanceMigrationPhase) {
		vmim = vmim.DeepCopy()
		vmim.Status.Phase = phase
		keep(t, d.informers.Migrations.GetStore(), vmim)
		move.sendChanged("a/move", change)
	}
	set(kubevirt.MigrationPending)
	o, _ := lastQueued(t, d)
	require.Equal(t, contract.QueuedMigration{
		Migration:       contract.Object{Namespace: "a", Name: "move", UID: "uid-move"},
		ResourceVersion: "5", CreatedAt: vmim.CreationTimestamp.UTC(), VMIName: "web", Node: "node1", Open: 1,
	}, o)
	start := outbox(d).pending[contract.AdmissionID][0].Start
	require.Equal(t, contract.WorkflowAdmission, start.Type)
	require.Equal(t, []string{"observe-migration+ uid-move"}, waiting(d, contract.AdmissionID))

	set(kubevirt.MigrationScheduling)
	o, n := lastQueued(t, d)
	require.True(t, n == 1 && o.Started && !o.Ended)
	waiting(d, contract.AdmissionID)

	// The guest is the target's by now, of which the source's place does not become another.
	vmi = vmi.DeepCopy()
	vmi.Status.NodeName = "node2"
	vmi.Status.MigrationState = &kubevirt.VirtualMachineInstanceMigrationState{MigrationUID: vmim.UID,
		SourceNode: "node1"}
	keep(t, d.informers.VMIs.GetStore(), vmi)
	set(kubevirt.MigrationRunning)
	_, n = lastQueued(t, d)
	require.Zero(t, n, "it counts as before")

	set(kubevirt.MigrationSucceeded)
	o, _ = lastQueued(t, d)
	require.True(t, o.Ended && !o.Started)
	require.Zero(t, o.Open)
	require.Equal(t, []string{"observe-migration uid-move"}, waiting(d, contract.AdmissionID),
		"what has ended starts no queue")
	move.sendGone(vmim, change)
	require.Empty(t, waiting(d, contract.AdmissionID), "it knows that it has ended")

	// One that vanishes before it has ended.
	set(kubevirt.MigrationPending)
	waiting(d, contract.AdmissionID)
	move.sendGone(vmim, change)
	o, _ = lastQueued(t, d)
	require.True(t, o.Ended)
	require.Equal(t, []string{"observe-migration uid-move"}, waiting(d, contract.AdmissionID))
}

// TestSendsPodsOfVMIToMigration: the pod that the guest is in, and the one that the migration has made, from when it
// was made; and their nodes.
func TestSendsPodsOfVMIToMigration(t *testing.T) {
	d := newTestDiffer(t)
	vmi, source, vmim := migrated(t, d)
	d.sendPod("a/p", change)
	outbox(d).pending = map[string][]*delivery.Delivery{}
	d.entities.migration.sendChanged("a/move", change)
	require.Equal(t, []string{"observe-migration+ uid-move", "observe-pod p"}, waiting(d, "migration/a/move"),
		"the workflow may not have run when it was sent before")
	d.entities.migration.redeliver(vmim)
	require.Equal(t, []string{"observe-migration+ uid-move", "observe-pod p", "observe-node p"},
		waiting(d, "migration/a/move"))

	target := keep(t, d.informers.Pods.GetStore(), targetPod(vmi, "move"))
	outbox(d).pending = map[string][]*delivery.Delivery{}
	d.sendPod("a/target", change)
	require.Equal(t, []string{"observe-pod t"}, waiting(d, "vmi/a/web"), "the VMI has not made it")
	require.Equal(t, []string{"observe-pod t"}, waiting(d, "migration/a/move"))
	d.sendPod("a/target", change)
	require.Empty(t, waiting(d, "vmi/a/web"))
	require.Empty(t, waiting(d, "migration/a/move"))

	target = target.DeepCopy()
	target.Spec.NodeName = "node2"
	keep(t, d.informers.Pods.GetStore(), target)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node2", UID: "n2"}}
	set(node, corev1.ConditionTrue)
	keep(t, d.informers.Nodes.GetStore(), node)
	d.sendPod("a/target", change)
	require.Empty(t, waiting(d, "migration/a/move"), "a well node is what it expects")
	set(node, corev1.ConditionUnknown)
	d.entities.node.sendChanged("node2", change)
	require.Equal(t, []string{"observe-node t"}, waiting(d, "migration/a/move"))
	require.Equal(t, []string{"observe-node t"}, waiting(d, "vmi/a/web"))
	d.entities.node.sendGone(node, change)
	require.Equal(t, []string{"observe-node t"}, waiting(d, "migration/a/move"))
	waiting(d, "vmi/a/web")

	source = source.DeepCopy()
	source.Status.Phase = corev1.PodSucceeded
	keep(t, d.informers.Pods.GetStore(), source)
	d.sendPod("a/p", change)
	require.Equal(t, []string{"observe-pod p"}, waiting(d, "migration/a/move"))
	d.sendPodGone(source, change)
	d.sendPodGone(target, change)
	require.Equal(t, []string{"observe-pod p", "observe-pod t"}, waiting(d, "migration/a/move"))
	require.Empty(t, d.last[migrationPodKind().name])
	require.Empty(t, d.last[migrationNodeKind().name])
}

// TestSendsNothingToClosedMigration: the pod that it has made keeps changing with the guest.
func TestSendsNothingToClosedMigration(t *testing.T) {
	d := newTestDiffer(t)
	vmi, _, vmim := migrated(t, d)
	target := keep(t, d.informers.Pods.GetStore(), targetPod(vmi, "move"))
	d.sendPod("a/target", change)
	require.NotEmpty(t, waiting(d, "migration/a/move"))
	vmim = vmim.DeepCopy()
	vmim.Status.Phase, vmim.Finalizers = kubevirt.MigrationSucceeded, nil
	keep(t, d.informers.Migrations.GetStore(), vmim)
	d.entities.migration.sendChanged("a/move", change)
	require.Equal(t, []string{"observe-migration uid-move"}, waiting(d, "migration/a/move"),
		"it is sent to the workflow, if that still runs")
	require.Empty(t, d.last[migrationPodKind().name])
	target = target.DeepCopy()
	target.Status.Phase = corev1.PodRunning
	keep(t, d.informers.Pods.GetStore(), target)
	d.sendPod("a/target", change)
	d.sendPodGone(target, change)
	require.Empty(t, waiting(d, "migration/a/move"))
	require.Equal(t, []string{"observe-pod t"}, waiting(d, "vmi/a/web"))

	// Its finalizer was removed by hand, and it is gone: it still has to handle what it has made.
	require.NoError(t, d.informers.Migrations.GetStore().Delete(vmim))
	d.sendPod("a/target", change)
	require.Equal(t, []string{"observe-pod t"}, waiting(d, "migration/a/move"))
	d.sendPodGone(target, change)
	require.Equal(t, []string{"observe-pod t"}, waiting(d, "migration/a/move"))
}

// TestStartsNoWorkflowForClosedMigration: neither at first, nor after a census or a resync.
func TestStartsNoWorkflowForClosedMigration(t *testing.T) {
	d := newTestDiffer(t)
	v := &visible{running: map[string]string{}}
	l := newTestResyncer(d, Clients{Temporal: v})
	d = l.differ
	closed := migrationOf("ended", kubevirt.MigrationSucceeded)
	closed.Finalizers = nil
	keep(t, d.informers.Migrations.GetStore(), closed)
	require.NoError(t, l.SendAll(t.Context()))
	delete(outbox(d).pending, contract.WorkloadUpdateID)
	require.Empty(t, outbox(d).pending)
	for range 3 {
		next, err := l.TakeCensus(t.Context())
		require.NoError(t, err)
		require.Equal(t, CensusInterval, next)
	}
	require.Zero(t, v.lists)
	_, err := l.Resync(t.Context(), false)
	require.NoError(t, err)
	require.Empty(t, outbox(d).pending)

	// A workflow that has missed it is sent it.
	v.executions = []*workflowpb.WorkflowExecutionInfo{running(t, "migration/a/ended", map[string]string{
		contract.SearchNamespace: "a", contract.SearchName: "ended", contract.SearchUID: "uid-ended",
	})}
	_, err = l.Resync(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, []string{"observe-migration uid-ended"}, waiting(d, "migration/a/ended"))
}

// TestRestartsTerminatedQueue: the restarted queue gets every migration that has not ended, running ones first.
func TestRestartsTerminatedQueue(t *testing.T) {
	d := newTestDiffer(t)
	v := &visible{running: map[string]string{contract.AdmissionID: contract.WorkflowAdmission}}
	l := newTestResyncer(d, Clients{Temporal: v})
	d = l.differ
	look := func(want int) {
		t.Helper()
		for range 2 {
			_, err := l.TakeCensus(t.Context())
			require.NoError(t, err)
		}
		require.Equal(t, want, v.lists)
	}
	look(0) // it is there although nothing waits
	all := []string{"one", "two", "three", "four", "five", "six", "seven"}
	for i, name := range all {
		phase := kubevirt.MigrationPending
		if i == len(all)-1 {
			phase = kubevirt.MigrationRunning
		}
		keep(t, d.informers.Migrations.GetStore(), migrationOf(name, phase))
		v.running["migration/a/"+name] = contract.WorkflowMigration
		v.executions = append(v.executions, running(t, "migration/a/"+name, map[string]string{
			contract.SearchNamespace: "a", contract.SearchName: name, contract.SearchUID: "uid-" + name,
		}))
	}
	keep(t, d.informers.Migrations.GetStore(), migrationOf("ended", kubevirt.MigrationFailed))
	v.running["migration/a/ended"] = contract.WorkflowMigration // it removes its finalizer
	v.executions = append(v.executions, running(t, "migration/a/ended", nil))
	requireQueued := func(of int) {
		t.Helper()
		queued := waiting(d, contract.AdmissionID)
		require.Len(t, queued, of)
		require.Equal(t, "observe-migration+ uid-seven", queued[0], "what runs")
	}
	require.NoError(t, l.SendAll(t.Context()))
	requireQueued(len(all) + 1)
	outbox(d).pending = map[string][]*delivery.Delivery{}
	look(0)
	delete(v.running, contract.AdmissionID)
	look(1)
	requireQueued(len(all))
	require.Empty(t, outbox(d).pending, "the migrations have theirs")
}
