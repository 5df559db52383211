package validation

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/migrations/v1alpha1"

	"github.com/virtflow/virtflow/internal/defaults"
)

// TestFactorsOfPolicy: the factors of a migration policy are checked whether the feature gate is on or not.
func TestFactorsOfPolicy(t *testing.T) {
	gate := defaults.Cluster{}
	gate.Configuration.DeveloperConfiguration = &kubevirtv1.DeveloperConfiguration{
		FeatureGates: []string{defaults.GateMigrationStall}}
	for name, c := range map[string]struct {
		stall kubevirtv1.StallDetectorOptions
		want  []string
	}{
		"none":          {kubevirtv1.StallDetectorOptions{}, nil},
		"in the bounds": {factors("0.4", "1", "0", "2.5"), nil},
		"at the bounds": {factors("1", "1", "1", "1e300"), nil},
		"below": {factors("0", "0.5", "-0.1", "0.99"), []string{"must be greater than 0",
			"must be greater than or equal to 1", "must be greater than or equal to 0",
			"must be greater than or equal to 1"}},
		"above": {factors("1.1", "1e999", "1.5", "1"), []string{"must be less than or equal to 1",
			"must be a number", "must be less than or equal to 1"}},
		"not numbers": {factors("", "x", "NaN", "1,5"), []string{"must be a number", "must be a number",
			"must be a number", "must be a number"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1alpha1.MigrationPolicy{Spec: v1alpha1.MigrationPolicySpec{
				ExperimentalMigrationOptions: &kubevirtv1.ExperimentalMigrationOptions{StallDetector: &c.stall}}}
			var got []string
			for _, cause := range MigrationPolicy(nil, p, gate) {
				got = append(got, cause.Message)
			}
			require.Equal(t, c.want, got)
			require.Len(t, MigrationPolicy(nil, p, defaults.Cluster{}), len(c.want)+1, "the gate is off")
			require.Len(t, MigrationPolicy(p, p, defaults.Cluster{}), len(c.want), "and was not")
		})
	}
}

func factors(ewma, precopy, patience, completion string) kubevirtv1.StallDetectorOptions {
	return kubevirtv1.StallDetectorOptions{EwmaAlpha: &ewma, PrecopyPossibleFactor: &precopy,
		PatienceWindowDecayFactor: &patience, CompletionTimeoutFactor: &completion}
}

// TestInvalidConfiguration: an invalid configuration is refused, so that no setting is accepted without effect.
func TestInvalidConfiguration(t *testing.T) {
	require.Empty(t, MigrationConfiguration(nil))
	minus, zero, none := int64(-1), int64(0), uint32(0)
	less, key, wrong := resource.MustParse("-1Mi"), "example.com/drain", "a b"
	require.Empty(t, MigrationConfiguration(&kubevirtv1.MigrationConfiguration{CompletionTimeoutPerGiB: &zero,
		ProgressTimeout: &zero, NodeDrainTaintKey: &key, Network: new("infra/moves")}))
	var fields []string
	for _, cause := range MigrationConfiguration(&kubevirtv1.MigrationConfiguration{
		CompletionTimeoutPerGiB: &minus, ProgressTimeout: &minus, UtilityVolumesTimeout: &minus,
		BandwidthPerMigration: &less, ParallelMigrationsPerCluster: &none, ParallelOutboundMigrationsPerNode: &none,
		Network: new("infra/moves@net1"), NodeDrainTaintKey: &wrong,
	}) {
		fields = append(fields, strings.TrimPrefix(cause.Field, "spec.configuration.migrations."))
	}
	require.Equal(t, []string{"completionTimeoutPerGiB", "progressTimeout", "utilityVolumesTimeout",
		"bandwidthPerMigration", "parallelMigrationsPerCluster", "parallelOutboundMigrationsPerNode",
		"network", "nodeDrainTaintKey"}, fields)
}
