package validation

import (
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	names "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/migrations/v1alpha1"

	"github.com/virtflow/virtflow/internal/defaults"
)

// MigrationPolicy applies KubeVirt's rules for a MigrationPolicy. Old is the policy before an update, or nil: fields
// that were written while a feature gate was on may stay.
func MigrationPolicy(old, policy *v1alpha1.MigrationPolicy, cluster defaults.Cluster) []metav1.StatusCause {
	spec := &policy.Spec
	var before v1alpha1.MigrationPolicySpec
	if old != nil {
		before = old.Spec
	}
	var causes []metav1.StatusCause
	add := func(list []metav1.StatusCause) { causes = append(causes, list...) }
	if n := spec.CompletionTimeoutPerGiB; n != nil && *n < 0 {
		add(invalid(specPath().Child("completionTimeoutPerGiB"), "must not be negative"))
	}
	gated := func(set, same bool, path *field.Path, name string) {
		if set && !same && !cluster.Enabled(defaults.GateMigrationStall) {
			add(invalid(path, "%s cannot be modified without enabling the %s feature gate", name,
				defaults.GateMigrationStall))
		}
	}
	gated(spec.MaxDowntimeMs != nil, equality.Semantic.DeepEqual(before.MaxDowntimeMs, spec.MaxDowntimeMs),
		specPath().Child("maxDowntimeMs"), "maxDowntimeMs")
	if stall := stallDetector(spec); stall != nil {
		path := specPath().Child("experimental", "stallDetector")
		gated(true, equality.Semantic.DeepEqual(stallDetector(&before), stall), path, "experimental.stallDetector")
		add(factor(path.Child("ewmaAlpha"), stall.EwmaAlpha, 0, 1, true))
		add(factor(path.Child("precopyPossibleFactor"), stall.PrecopyPossibleFactor, 1, math.MaxFloat64, false))
		add(factor(path.Child("patienceWindowDecayFactor"), stall.PatienceWindowDecayFactor, 0, 1, false))
		add(factor(path.Child("completionTimeoutFactor"), stall.CompletionTimeoutFactor, 1, math.MaxFloat64, false))
	}
	if q := spec.BandwidthPerMigration; q != nil && q.Sign() < 0 {
		add(invalid(specPath().Child("bandwidthPerMigration"), "must not be negative"))
	}
	return causes
}

// MigrationConfiguration applies virtflow's own rules for the cluster's migration settings: invalid values are refused
// rather than ignored.
func MigrationConfiguration(c *kubevirtv1.MigrationConfiguration) []metav1.StatusCause {
	if c == nil {
		return nil
	}
	path := specPath().Child("configuration", "migrations")
	var causes []metav1.StatusCause
	for _, n := range []struct {
		name  string
		value *int64
	}{
		{"completionTimeoutPerGiB", c.CompletionTimeoutPerGiB}, {"progressTimeout", c.ProgressTimeout},
		{"utilityVolumesTimeout", c.UtilityVolumesTimeout},
	} {
		if n.value != nil && *n.value < 0 {
			causes = append(causes, invalid(path.Child(n.name), "must not be negative")...)
		}
	}
	if q := c.BandwidthPerMigration; q != nil && q.Sign() < 0 {
		causes = append(causes, invalid(path.Child("bandwidthPerMigration"), "must not be negative")...)
	}
	for _, n := range []struct {
		name  string
		value *uint32
	}{
		{"parallelMigrationsPerCluster", c.ParallelMigrationsPerCluster},
		{"parallelOutboundMigrationsPerNode", c.ParallelOutboundMigrationsPerNode},
	} {
		if n.value != nil && *n.value == 0 {
			causes = append(causes, invalid(path.Child(n.name), "must be greater than 0")...)
		}
	}
	if n := c.Network; n != nil && *n != "" {
		causes = append(causes, definitionName(path.Child("network"), *n)...)
	}
	if k := c.NodeDrainTaintKey; k != nil && *k != "" {
		for _, text := range names.IsQualifiedName(*k) {
			causes = append(causes, invalid(path.Child("nodeDrainTaintKey"), "%s", text)...)
		}
	}
	return causes
}

func stallDetector(spec *v1alpha1.MigrationPolicySpec) *kubevirtv1.StallDetectorOptions {
	if spec.ExperimentalMigrationOptions == nil {
		return nil
	}
	return spec.ExperimentalMigrationOptions.StallDetector
}

// factor checks a number that is written as text.
func factor(path *field.Path, value *string, least, most float64, more bool) []metav1.StatusCause {
	if value == nil {
		return nil
	}
	f, err := strconv.ParseFloat(*value, 64)
	switch {
	case err != nil || math.IsNaN(f):
		return invalid(path, "must be a number")
	case more && f <= least:
		return invalid(path, "must be greater than %g", least)
	case f < least:
		return invalid(path, "must be greater than or equal to %g", least)
	case f > most:
		return invalid(path, "must be less than or equal to %g", most)
	default:
		return nil
	}
}

// OwnMigrationPolicy applies virtflow's own rule: unsupported settings are refused rather than ignored.
func OwnMigrationPolicy(policy *v1alpha1.MigrationPolicy) []metav1.StatusCause {
	e := policy.Spec.ExperimentalMigrationOptions
	if e == nil || e.Compression == nil || *e.Compression == "" || *e.Compression == "none" {
		return nil
	}
	return unsupported(specPath().Child("experimental", "compression"),
		"spec.experimental.compression: %s is not supported yet (supported: none)", *e.Compression)
}
