package settings

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"kubevirt.io/api/migrations/v1alpha1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/internal/multus"
)

// Defaults of KubeVirt 1.9 for migrations.
const (
	defaultMigrationsPerCluster = 5
	defaultMigrationsPerNode    = 2
	defaultCompletionPerGiB     = 150 // seconds
	defaultProgressTimeout      = 150 // seconds
	defaultMaxDowntimeMs        = 900 // only with feature gate MigrationStallDetection
)

// Migrations has the settings of configuration.migrations.
type Migrations struct {
	// PerCluster is the most migrations at a time, PerNode the most away from one node.
	PerCluster, PerNode int
	// Configuration applies to guests without a MigrationPolicy that overrides it.
	Configuration contract.MigrationConfiguration
	// Network is the NetworkAttachmentDefinition, as namespace/name, of the only network that guests may be moved over;
	// "": the one that the nodes have.
	Network string
}

// Migrations returns the cluster's settings of migrations. An invalid value counts as not set.
func (s Settings) Migrations() Migrations {
	m := Migrations{
		PerCluster: defaultMigrationsPerCluster, PerNode: defaultMigrationsPerNode,
		Configuration: contract.MigrationConfiguration{
			CompletionPerGiB: defaultCompletionPerGiB, Progress: defaultProgressTimeout,
		},
	}
	stall := s.Enabled(defaults.GateMigrationStall)
	if stall {
		m.Configuration.MaxDowntimeMs = defaultMaxDowntimeMs
	}
	c := s.Configuration.MigrationConfiguration
	if c == nil {
		return m
	}
	if n := c.Network; n != nil && *n != "" {
		m.Network = contract.Cut(multus.QualifiedName(*n, s.Namespace), maxNetwork)
	}
	if n := c.ParallelMigrationsPerCluster; n != nil && *n > 0 {
		m.PerCluster = int(*n)
	}
	if n := c.ParallelOutboundMigrationsPerNode; n != nil && *n > 0 {
		m.PerNode = min(int(*n), contract.MostMigrationsPerNode)
	}
	to := &m.Configuration
	setIfNotNegative(&to.Progress, c.ProgressTimeout)
	setIfGiven(&to.Unsafe, c.UnsafeMigrationOverride)
	override(to, overrides{
		c.AllowAutoConverge, c.AllowPostCopy, c.AllowWorkloadDisruption, c.BandwidthPerMigration,
		c.CompletionTimeoutPerGiB, downtime(c.MaxDowntimeMs, stall),
	})
	return m
}

// Under returns the configuration of migrations under a MigrationPolicy; nil means that none applies.
func (s Settings) Under(policy *v1alpha1.MigrationPolicy) contract.MigrationConfiguration {
	out := s.Migrations().Configuration
	if policy != nil {
		p := &policy.Spec
		override(&out, overrides{
			p.AllowAutoConverge, p.AllowPostCopy, p.AllowWorkloadDisruption, p.BandwidthPerMigration,
			p.CompletionTimeoutPerGiB, downtime(p.MaxDowntimeMs, s.Enabled(defaults.GateMigrationStall)),
		})
	}
	return out
}

// overrides has the fields that both the KubeVirt object and a policy may set.
type overrides struct {
	autoConverge, postCopy, disruption *bool
	bandwidth                          *resource.Quantity
	completion                         *int64
	maxDowntime                        *uint64
}

// override applies the fields that are set. Post-copy without a setting for workload disruption permits that, too.
func override(c *contract.MigrationConfiguration, by overrides) {
	setIfGiven(&c.AutoConverge, by.autoConverge)
	setIfGiven(&c.PostCopy, by.postCopy)
	setIfGiven(&c.Disruption, by.postCopy)
	setIfGiven(&c.Disruption, by.disruption)
	setIfNotNegative(&c.CompletionPerGiB, by.completion)
	if q := by.bandwidth; q != nil && q.Sign() >= 0 {
		c.Bandwidth = q.Value()
	}
	if ms := by.maxDowntime; ms != nil && *ms > 0 && *ms <= maxDowntimeMs {
		c.MaxDowntimeMs = int64(*ms)
	}
}

// maxNetwork is in bytes: those of the longest names of a namespace and of an object in it.
const maxNetwork = 63 + 1 + 253

// maxDowntimeMs is the maximum in the definitions of both objects.
const maxDowntimeMs = 2_000_000

func downtime(ms *uint64, stallDetection bool) *uint64 {
	if !stallDetection {
		return nil
	}
	return ms
}

// setIfGiven sets a field unless the configuration leaves it out (nil).
func setIfGiven[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// setIfNotNegative sets a field unless the configuration leaves it out, or has a negative number.
func setIfNotNegative(to, from *int64) {
	if from != nil && *from >= 0 {
		*to = *from
	}
}

// MatchPolicy returns the MigrationPolicy that applies to a VMI of those labels in a namespace of those labels, or nil.
// The one that selects by the most labels wins, then the one with the most labels of the VMI, then the first by name.
// As in KubeVirt, a VMI without labels matches all selectors, and a policy without selectors applies to none.
func MatchPolicy(policies []*v1alpha1.MigrationPolicy, vmi, namespace map[string]string) *v1alpha1.MigrationPolicy {
	var best *v1alpha1.MigrationPolicy
	var most score
	for _, p := range policies {
		s, ok := matches(p.Spec.Selectors, vmi, namespace)
		if !ok {
			continue
		}
		if best == nil || most.less(s) || s == most && p.Name < best.Name {
			best, most = p, s
		}
	}
	return best
}

// NamespaceMatters reports whether a policy selects by labels of namespaces.
func NamespaceMatters(policies []*v1alpha1.MigrationPolicy) bool {
	for _, p := range policies {
		if p.Spec.Selectors != nil && len(p.Spec.Selectors.NamespaceSelector) > 0 {
			return true
		}
	}
	return false
}

// score is the number of labels by which a policy selects.
type score struct{ vmi, namespace int }

func (s score) less(than score) bool {
	if a, b := s.vmi+s.namespace, than.vmi+than.namespace; a != b {
		return a < b
	}
	return s.vmi < than.vmi
}

func matches(s *v1alpha1.Selectors, vmi, namespace map[string]string) (score, bool) {
	switch {
	case s == nil:
		return score{}, false
	case len(vmi) == 0:
		return score{}, true
	}
	ok := hasLabels(vmi, s.VirtualMachineInstanceSelector) && hasLabels(namespace, s.NamespaceSelector)
	return score{len(s.VirtualMachineInstanceSelector), len(s.NamespaceSelector)}, ok
}

// hasLabels reports whether the labels have every entry of the selector.
func hasLabels(labels map[string]string, selector v1alpha1.LabelSelector) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}
