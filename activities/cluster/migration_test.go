package cluster_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"
	"kubevirt.io/api/migrations/v1alpha1"

	"github.com/virtflow/virtflow/activities/cluster"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/settings"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

// migration makes a VirtualMachineInstanceMigration of the instance web, changed before it is made.
func (w *world) migration(
	t *testing.T, name string, change func(*kubevirt.VirtualMachineInstanceMigration),
) contract.Object {
	t.Helper()
	m := &kubevirt.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: w.ns, Finalizers: []string{contract.FinalizerMigration},
			Labels: map[string]string{kubevirt.MigrationSelectorLabel: "web"},
		},
		Spec: kubevirt.VirtualMachineInstanceMigrationSpec{VMIName: "web"},
	}
	if change != nil {
		change(m)
	}
	status := m.Status
	made, err := w.kubevirt.Migrations(w.ns).Create(t.Context(), m, metav1.CreateOptions{})
	require.NoError(t, err)
	if status.Phase != "" {
		made.Status = status
		_, err = w.kubevirt.Migrations(w.ns).UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	return contract.Object{Namespace: w.ns, Name: made.Name, UID: string(made.UID)}
}

func (w *world) migrationNow(t *testing.T, name string) *kubevirt.VirtualMachineInstanceMigration {
	t.Helper()
	m, err := w.kubevirt.Migrations(w.ns).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return m
}

func evacuation(m *kubevirt.VirtualMachineInstanceMigration) {
	m.Annotations = map[string]string{contract.AnnotationEvacuation: "node1"}
}

// TestReadMigration: the migration, the VMI that it names, and the pods of that; where the VMI is gone,
// those that were made for the migration.
func TestReadMigration(t *testing.T) {
	w := newWorld(t)
	w.Settings = withNetwork
	vmi, own, _ := w.running(t)
	migration := w.migration(t, "move", nil)
	target := w.another(t, vmi, func(p *corev1.Pod) { p.Labels[contract.LabelMigration] = migration.UID })
	_, err := fakekube.Edit(w.fake, w.ns, "web", "", func(v *kubevirt.VirtualMachineInstance) {
		v.Status.MigrationState = &kubevirt.VirtualMachineInstanceMigrationState{SourceNode: "node1"}
	})
	require.NoError(t, err)
	w.fake.Calls()
	out, err := w.ReadMigration(t.Context(), contract.ReadMigrationInput{Migration: migration})
	require.NoError(t, err)
	w.calls(t, "GET virtualmachineinstancemigrations", "GET virtualmachineinstances", "GET pods")
	require.Equal(t, "web", out.Migration.VMIName)
	require.Equal(t, vmi.UID, out.VMI.UID)
	require.Equal(t, "node1", out.State.SourceNode)
	require.Equal(t, "infra/moves", out.Network, "the VMI's status does not have it")
	var pods []string
	for _, p := range out.Pods() {
		pods = append(pods, p.UID)
	}
	require.ElementsMatch(t, []string{own.UID, target.UID}, pods)

	// Another one of the name is none.
	other := contract.Object{Namespace: w.ns, Name: "move", UID: "other"}
	out, err = w.ReadMigration(t.Context(), contract.ReadMigrationInput{Migration: other})
	require.NoError(t, err)
	require.Equal(t, contract.ReadMigrationResult{}, out, "it is not known of which VMI it was")
	out, err = w.ReadMigration(t.Context(), contract.ReadMigrationInput{Migration: other, VMIName: "web"})
	require.NoError(t, err)
	require.Nil(t, out.Migration)
	require.Equal(t, vmi.UID, out.VMI.UID)

	out, err = w.ReadMigration(t.Context(),
		contract.ReadMigrationInput{Migration: migration, VMIName: "another"})
	require.NoError(t, err)
	require.Nil(t, out.VMI)
	require.Len(t, out.Pods(), 1)
	require.Equal(t, target.UID, out.Pods()[0].UID)
}

// withNetwork returns the settings of a cluster whose guests may be moved over one network only.
func withNetwork() settings.Settings {
	s := settings.Default()
	s.Configuration.MigrationConfiguration = &kubevirt.MigrationConfiguration{Network: new("infra/moves")}
	return s
}

// TestCountsEarlierFailures: only migrations that back off count earlier failures, and only failures since the last
// success.
func TestCountsEarlierFailures(t *testing.T) {
	w := newWorld(t)
	if w.fake == nil {
		t.Skip("needs an API server whose clock is a test's")
	}
	const failed, succeeded = kubevirt.MigrationFailed, kubevirt.MigrationSucceeded
	update := func(m *kubevirt.VirtualMachineInstanceMigration) {
		m.Annotations = map[string]string{contract.AnnotationWorkloadUpdate: ""}
	}
	users := func(*kubevirt.VirtualMachineInstanceMigration) {}
	at := time.Now().UTC().Truncate(time.Second)
	make := func(
		name string, phase kubevirt.VirtualMachineInstanceMigrationPhase,
		change func(*kubevirt.VirtualMachineInstanceMigration),
	) contract.Object {
		w.later += time.Minute
		return w.migration(t, name, func(m *kubevirt.VirtualMachineInstanceMigration) {
			change(m)
			m.Status.Phase = phase
			m.Status.PhaseTransitionTimestamps = []kubevirt.VirtualMachineInstanceMigrationPhaseTransitionTimestamp{
				{Phase: phase, PhaseTransitionTimestamp: metav1.NewTime(at.Add(w.later))}}
		})
	}
	make("of-another-vmi", failed, evacuation)
	w.later += time.Minute
	w.fake.Calls()
	w.machine(t)
	read := func(m contract.Object) contract.ReadMigrationResult {
		out, err := w.ReadMigration(t.Context(), contract.ReadMigrationInput{Migration: m})
		require.NoError(t, err)
		return out
	}
	first := make("first", kubevirt.MigrationPending, evacuation)
	require.Zero(t, read(first).Failures)
	make("long-ago", failed, evacuation)
	make("done", succeeded, evacuation)
	make("failed", failed, evacuation)
	make("failed-too", failed, update)
	last := at.Add(w.later)
	make("users", failed, users)
	make("users-too", succeeded, users)
	make("deleted", failed, evacuation)
	require.NoError(t, w.kubevirt.Migrations(w.ns).Delete(t.Context(), "deleted", metav1.DeleteOptions{}))
	now, own := make("now", kubevirt.MigrationPending, update), make("own", kubevirt.MigrationPending, users)
	make("later", failed, evacuation)
	require.Equal(t, 2, read(now).Failures)
	require.Equal(t, last, read(now).LastFailure)
	require.Zero(t, read(own).Failures)
	require.Zero(t, read(first).Failures, "those after it are none of its business")
}

// TestPatchMigration: status and metadata are two requests, of which the first makes it final.
func TestPatchMigration(t *testing.T) {
	w := newWorld(t)
	migration := w.migration(t, "move", nil)
	version := w.migrationNow(t, "move").ResourceVersion
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w.fake.Calls()
	in := contract.PatchMigrationInput{
		Migration: migration, ResourceVersion: version,
		Status: &contract.MigrationStatus{
			Phase:      contract.MigrationSucceeded,
			PhaseTimes: []contract.PhaseTime{{Phase: contract.MigrationSucceeded, Time: at}},
			Conditions: []contract.Condition{{Type: "virtflow.io/Queued", Status: "False", LastTransitionTime: &at}},
			State: &contract.MigrationState{
				MigrationUID: migration.UID, SourceNode: "node1", TargetNode: "node2", TargetPort: 8188,
				TargetAddress: "10.0.0.2", Network: "Pod", PolicyName: "fast", Mode: "PreCopy", Start: at, End: at,
				Completed: true, Configuration: &contract.MigrationConfiguration{Bandwidth: 64 << 20,
					CompletionPerGiB: 150, Progress: 150},
			},
		},
		Finalizers: &[]string{"example.com/kept"},
		Stats:      &contract.MigrationStats{TotalMs: 1500, DowntimeMs: 140, Bytes: 1 << 40, Iterations: 3},
		Events:     []contract.Event{{Type: "Normal", Reason: "SuccessfulMigration", Message: "done"}},
	}
	out, err := w.PatchMigration(t.Context(), in)
	require.NoError(t, err)
	w.calls(t, "PATCH virtualmachineinstancemigrations/status", "POST events",
		"PATCH virtualmachineinstancemigrations")
	require.True(t, out.Written)
	require.Equal(t, []string{"example.com/kept"}, out.Current.Finalizers)
	require.True(t, out.Current.Final())
	now := w.migrationNow(t, "move")
	require.Equal(t, map[string]string{"virtflow.io/migration-downtime-ms": "140",
		"virtflow.io/migration-total-ms": "1500", "virtflow.io/migration-bytes": "1099511627776",
		"virtflow.io/migration-iterations": "3"}, now.Annotations)
	s := now.Status.MigrationState
	require.Equal(t, "node2", s.TargetNode)
	require.Equal(t, map[string]int{"8188": 0}, s.TargetDirectMigrationNodePorts)
	require.Equal(t, "64Mi", s.VMIMConfigurationOptions.BandwidthPerMigration.String())
	require.Equal(t, at, s.EndTimestamp.UTC())
	require.Nil(t, s.TargetNodeDomainReadyTimestamp)
	require.Nil(t, s.VMIMConfigurationOptions.MaxDowntimeMs)

	// A second attempt changes nothing, and returns what there is.
	again, err := w.PatchMigration(t.Context(), in)
	require.NoError(t, err)
	require.True(t, again.Conflict)
	require.Equal(t, out.Current, again.Current)

	// What is not said any more is removed.
	out, err = w.PatchMigration(t.Context(), contract.PatchMigrationInput{Migration: migration,
		ResourceVersion: out.Current.ResourceVersion, Status: &contract.MigrationStatus{Phase: contract.MigrationFailed,
			State: &contract.MigrationState{MigrationUID: migration.UID}}})
	require.NoError(t, err)
	require.True(t, out.Written)
	require.Equal(t, &kubevirt.VirtualMachineInstanceMigrationState{
		MigrationUID: w.migrationNow(t, "move").UID}, w.migrationNow(t, "move").Status.MigrationState)
	nothing, err := w.PatchMigration(t.Context(), contract.PatchMigrationInput{Migration: migration})
	require.NoError(t, err)
	require.Equal(t, contract.PatchMigrationResult{}, nothing)
}

// TestEndedMigrationIsOwnedByVMI: an ended migration gets the VMI as its owner, unless it has another owner.
func TestEndedMigrationIsOwnedByVMI(t *testing.T) {
	vmi := contract.Object{Name: "web", UID: "vmi"}
	for name, c := range map[string]struct {
		owned  bool
		status *contract.MigrationStatus
		calls  []string
	}{
		"written before": {status: &contract.MigrationStatus{Phase: contract.MigrationFailed},
			calls: []string{"PATCH virtualmachineinstancemigrations/status", "PATCH virtualmachineinstancemigrations"}},
		"not written before": {
			calls: []string{"GET virtualmachineinstancemigrations", "PATCH virtualmachineinstancemigrations"}},
		"another owner": {owned: true,
			calls: []string{"GET virtualmachineinstancemigrations", "PATCH virtualmachineinstancemigrations"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			plan, err := w.kubernetes.CoreV1().Secrets(w.ns).Create(t.Context(),
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "plan"}}, metav1.CreateOptions{})
			require.NoError(t, err)
			want := types.UID(vmi.UID)
			migration := w.migration(t, "move", func(m *kubevirt.VirtualMachineInstanceMigration) {
				if c.owned {
					want = plan.UID
					m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "plan",
						UID: plan.UID}}
				}
			})
			in := contract.PatchMigrationInput{Migration: migration, Status: c.status, Owner: vmi,
				ResourceVersion: w.migrationNow(t, "move").ResourceVersion, Finalizers: &[]string{"example.com/kept"}}
			w.fake.Calls()
			_, err = w.PatchMigration(t.Context(), in)
			require.NoError(t, err)
			w.calls(t, c.calls...)
			owners := w.migrationNow(t, "move").OwnerReferences
			require.Len(t, owners, 1)
			require.Equal(t, want, owners[0].UID)
			require.Nil(t, owners[0].Controller)
		})
	}
}

// TestMigrationIsRemovedWithFinalizer: a migration that is gone, or whose name another one has by now, counts as gone.
func TestMigrationIsRemovedWithFinalizer(t *testing.T) {
	w := newWorld(t)
	migration := w.migration(t, "move", nil)
	require.NoError(t, w.kubevirt.Migrations(w.ns).Delete(t.Context(), "move", metav1.DeleteOptions{}))
	in := contract.PatchMigrationInput{Migration: migration, Finalizers: &[]string{},
		ResourceVersion: w.migrationNow(t, "move").ResourceVersion,
		Status:          &contract.MigrationStatus{Phase: contract.MigrationFailed}}
	out, err := w.PatchMigration(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, contract.PatchMigrationResult{Written: true, Gone: true}, out)
	out, err = w.PatchMigration(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, contract.PatchMigrationResult{Gone: true}, out)
	w.migration(t, "move", nil)
	out, err = w.PatchMigration(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, contract.PatchMigrationResult{Gone: true}, out, "another one of the name")
}

// TestDeletesMigrationOnlyWithoutVMI.
func TestDeletesMigrationOnlyWithoutVMI(t *testing.T) {
	w := newWorld(t)
	_, vmi := w.machine(t)
	migration := w.migration(t, "move", nil)
	out, err := w.DeleteMigration(t.Context(), contract.DeleteMigrationInput{Migration: migration, VMIName: "web"})
	require.NoError(t, err)
	require.NotEmpty(t, out.Refused)
	require.Equal(t, vmi.UID, out.VMI.UID)
	require.Nil(t, w.migrationNow(t, "move").DeletionTimestamp)
	in := contract.DeleteMigrationInput{Migration: migration, VMIName: "gone"}
	for range 2 {
		out, err = w.DeleteMigration(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, contract.DeleteMigrationResult{}, out)
		require.NotNil(t, w.migrationNow(t, "move").DeletionTimestamp)
	}
	in.Migration.UID = "other"
	out, err = w.DeleteMigration(t.Context(), in)
	require.NoError(t, err)
	require.True(t, out.Absent)
}

// TestConfigureMigration: by the policy that matches, whose labels are read only where there is one.
func TestConfigureMigration(t *testing.T) {
	w := newWorld(t)
	_, vmi := w.machine(t)
	in := contract.ConfigureMigrationInput{VMI: vmi}
	w.Settings = withNetwork
	w.fake.Calls()
	out, err := w.ConfigureMigration(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, contract.ConfigureMigrationResult{Network: "infra/moves",
		Configuration: contract.MigrationConfiguration{CompletionPerGiB: 150, Progress: 150}}, out)
	w.calls(t)

	seconds, yes := int64(10), true
	policy := func(name string, s *v1alpha1.Selectors) *v1alpha1.MigrationPolicy {
		return &v1alpha1.MigrationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.MigrationPolicySpec{Selectors: s, CompletionTimeoutPerGiB: &seconds, AllowPostCopy: &yes}}
	}
	options := w.Options
	policies := []*v1alpha1.MigrationPolicy{policy("other", &v1alpha1.Selectors{
		VirtualMachineInstanceSelector: v1alpha1.LabelSelector{"app": "db"}})}
	options.Policies = func() ([]*v1alpha1.MigrationPolicy, error) { return policies, nil }
	a, err := cluster.New(options)
	require.NoError(t, err)
	out, err = a.ConfigureMigration(t.Context(), in)
	require.NoError(t, err)
	require.Empty(t, out.Policy)
	w.calls(t, "GET virtualmachineinstances")

	policies = append(policies, policy("web", &v1alpha1.Selectors{
		VirtualMachineInstanceSelector: v1alpha1.LabelSelector{"app": "web"},
		NamespaceSelector:              v1alpha1.LabelSelector{"kubernetes.io/metadata.name": w.ns}}))
	out, err = a.ConfigureMigration(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, "web", out.Policy)
	require.Equal(t, "infra/moves", out.Network, "no policy has one")
	require.Equal(t, contract.MigrationConfiguration{CompletionPerGiB: 10, Progress: 150, PostCopy: true,
		Disruption: true}, out.Configuration)
	w.calls(t, "GET virtualmachineinstances", "GET namespaces")

	_, err = a.ConfigureMigration(t.Context(), contract.ConfigureMigrationInput{
		VMI: contract.Object{Namespace: w.ns, Name: "web", UID: "other"}})
	require.Equal(t, contract.ErrorGone, errorType(err))
	options.Policies = func() ([]*v1alpha1.MigrationPolicy, error) { return nil, http.ErrHandlerTimeout }
	a, err = cluster.New(options)
	require.NoError(t, err)
	_, err = a.ConfigureMigration(t.Context(), in)
	require.Equal(t, "Kubernetes", errorType(err), "it is asked again")

	limits, err := w.ReadMigrationLimits(t.Context())
	require.NoError(t, err)
	require.Equal(t, contract.ReadLimitsResult{Cluster: 5, Outbound: 2}, limits)
}
