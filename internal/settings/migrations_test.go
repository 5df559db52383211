package settings

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
	"kubevirt.io/api/migrations/v1alpha1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/defaults"
)

func migrations(c *kubevirt.MigrationConfiguration, gates ...string) Settings {
	return From(&kubevirt.KubeVirt{Spec: kubevirt.KubeVirtSpec{Configuration: kubevirt.KubeVirtConfiguration{
		MigrationConfiguration: c,
		DeveloperConfiguration: &kubevirt.DeveloperConfiguration{FeatureGates: gates},
	}}})
}

func TestMigrationsHaveKubeVirtsDefaults(t *testing.T) {
	want := Migrations{PerCluster: 5, PerNode: 2,
		Configuration: contract.MigrationConfiguration{CompletionPerGiB: 150, Progress: 150}}
	require.Equal(t, want, Default().Migrations())
	require.Equal(t, want, migrations(nil).Migrations())
	require.Equal(t, want, migrations(&kubevirt.MigrationConfiguration{}).Migrations())
	want.Configuration.MaxDowntimeMs = 900
	require.Equal(t, want, migrations(nil, defaults.GateMigrationStall).Migrations())
}

func TestNetworkOfMigrations(t *testing.T) {
	for network, want := range map[string]string{
		"": "", "moves": "virtflow/moves", "infra/moves": "infra/moves",
		strings.Repeat("x", 400): "virtflow/" + strings.Repeat("x", 308),
	} {
		kv := &kubevirt.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow"}}
		kv.Spec.Configuration.MigrationConfiguration = &kubevirt.MigrationConfiguration{Network: &network}
		require.Equal(t, want, From(kv).Migrations().Network)
	}
}

func TestMigrationsAreConfigured(t *testing.T) {
	yes := true
	three, zero, ten, minus, hour := uint32(3), uint32(0), int64(10), int64(-1), int64(3600)
	rate, negative, downtime := resource.MustParse("64Mi"), resource.MustParse("-1"), uint64(300)
	got := migrations(&kubevirt.MigrationConfiguration{
		ParallelMigrationsPerCluster: &three, ParallelOutboundMigrationsPerNode: &three,
		AllowAutoConverge: &yes, BandwidthPerMigration: &rate, CompletionTimeoutPerGiB: &ten, ProgressTimeout: &hour,
		UnsafeMigrationOverride: &yes, AllowPostCopy: &yes, MaxDowntimeMs: &downtime,
	}).Migrations()
	require.Equal(t, Migrations{PerCluster: 3, PerNode: 3,
		Configuration: contract.MigrationConfiguration{AutoConverge: true, Bandwidth: 64 << 20, CompletionPerGiB: 10,
			Progress: 3600, Unsafe: true, PostCopy: true, Disruption: true}}, got)
	require.Equal(t, Default().Migrations(), migrations(&kubevirt.MigrationConfiguration{
		ParallelMigrationsPerCluster: &zero, ParallelOutboundMigrationsPerNode: &zero,
		BandwidthPerMigration: &negative, CompletionTimeoutPerGiB: &minus, ProgressTimeout: &minus,
	}).Migrations(), "what makes no sense is not set")
	many := uint32(100)
	got = migrations(&kubevirt.MigrationConfiguration{
		ParallelMigrationsPerCluster: &many, ParallelOutboundMigrationsPerNode: &many}).Migrations()
	require.Equal(t, 100, got.PerCluster)
	require.Equal(t, contract.MostMigrationsPerNode, got.PerNode, "what a node worker does")
	no := false
	require.False(t, migrations(&kubevirt.MigrationConfiguration{AllowPostCopy: &yes,
		AllowWorkloadDisruption: &no}).Migrations().Configuration.Disruption)
	s := migrations(&kubevirt.MigrationConfiguration{MaxDowntimeMs: &downtime}, defaults.GateMigrationStall)
	require.EqualValues(t, 300, s.Migrations().Configuration.MaxDowntimeMs)
}

func TestPolicyOverridesSettings(t *testing.T) {
	yes, no, zero, downtime, endless := true, false, int64(0), uint64(100), uint64(1<<40)
	s := migrations(&kubevirt.MigrationConfiguration{AllowPostCopy: &yes, AllowAutoConverge: &yes},
		defaults.GateMigrationStall)
	base := s.Migrations().Configuration
	require.Equal(t, base, s.Under(nil))
	require.Equal(t, base, s.Under(&v1alpha1.MigrationPolicy{}))
	want := base
	want.PostCopy, want.Disruption, want.CompletionPerGiB, want.MaxDowntimeMs = false, false, 0, 100
	require.Equal(t, want, s.Under(&v1alpha1.MigrationPolicy{Spec: v1alpha1.MigrationPolicySpec{
		AllowPostCopy: &no, CompletionTimeoutPerGiB: &zero, MaxDowntimeMs: &downtime}}))
	require.EqualValues(t, 900, s.Under(&v1alpha1.MigrationPolicy{Spec: v1alpha1.MigrationPolicySpec{
		MaxDowntimeMs: &endless}}).MaxDowntimeMs)
	require.Zero(t, migrations(nil).Under(&v1alpha1.MigrationPolicy{Spec: v1alpha1.MigrationPolicySpec{
		MaxDowntimeMs: &downtime}}).MaxDowntimeMs, "without the feature gate it cannot be set")
}

func TestWhichPolicyMatches(t *testing.T) {
	policy := func(name string, vmi, namespace v1alpha1.LabelSelector) *v1alpha1.MigrationPolicy {
		return &v1alpha1.MigrationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.MigrationPolicySpec{Selectors: &v1alpha1.Selectors{
				VirtualMachineInstanceSelector: vmi, NamespaceSelector: namespace}}}
	}
	type labels = v1alpha1.LabelSelector
	web, both := labels{"app": "web"}, labels{"app": "web", "size": "l"}
	team := labels{"team": "a"}
	without := &v1alpha1.MigrationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	for name, c := range map[string]struct {
		policies []*v1alpha1.MigrationPolicy
		vmi      map[string]string
		want     string
	}{
		"none":                    {nil, both, ""},
		"without selectors":       {[]*v1alpha1.MigrationPolicy{without}, both, ""},
		"with empty selectors":    {[]*v1alpha1.MigrationPolicy{policy("all", nil, nil)}, both, "all"},
		"another label's value":   {[]*v1alpha1.MigrationPolicy{policy("a", labels{"app": "db"}, nil)}, both, ""},
		"a label that is missing": {[]*v1alpha1.MigrationPolicy{policy("a", labels{"x": ""}, nil)}, both, ""},
		"a namespace's":           {[]*v1alpha1.MigrationPolicy{policy("a", nil, team)}, both, "a"},
		"another namespace's":     {[]*v1alpha1.MigrationPolicy{policy("a", web, labels{"team": "b"})}, both, ""},
		"the more detailed one": {[]*v1alpha1.MigrationPolicy{policy("a", web, nil), policy("b", both, nil)}, both,
			"b"},
		"the VMI's before the namespace's": {[]*v1alpha1.MigrationPolicy{
			policy("a", nil, team), policy("b", web, nil)}, both, "b"},
		"the sum before the VMI's": {[]*v1alpha1.MigrationPolicy{
			policy("a", web, team), policy("b", web, nil)}, both, "a"},
		"the first name": {[]*v1alpha1.MigrationPolicy{
			policy("c", web, nil), policy("b", web, nil), policy("d", web, nil)}, both, "b"},
		"any, for a VMI without labels": {[]*v1alpha1.MigrationPolicy{
			policy("c", both, nil), policy("b", web, labels{"team": "b"}), without}, nil, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			got := MatchPolicy(c.policies, c.vmi, team)
			if c.want == "" {
				require.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			require.Equal(t, c.want, got.Name)
		})
	}
	require.False(t, NamespaceMatters([]*v1alpha1.MigrationPolicy{without, policy("a", web, nil)}))
	require.True(t, NamespaceMatters([]*v1alpha1.MigrationPolicy{policy("a", web, team)}))
}
