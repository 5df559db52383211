package settings

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"kubevirt.io/api/migrations/v1alpha1"

	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/workflows/contract"
)

// Defaults of KubeVirt 1.9 for migrations.
const (
	defaultMigrationsPerCluster = 5
	defaultMigrationsPerNode    = 2
	defaultCompletionPerGiB     = 150 // seconds
	defaultProgressTimeout      = 150 // seconds
	defaultMaxDowntimeMs        = 900 // only with feature gate MigrationStallDetection
)

// Migrations is what configuration.migrations says.
type Migrations struct {
	// PerCluster is how many migrations there may be at a time, PerNode how many away from one node.
	PerCluster, PerNode int
	// Configuration is how guests are moved for which no MigrationPolicy says something else.
	Configuration contract.MigrationConfiguration
}

// Migrations are the cluster's settings of migrations. A value that makes no sense counts as not set.
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
	if n := c.ParallelMigrationsPerCluster; n != nil && *n > 0 {
		m.PerCluster = int(*n)
	}
	if n := c.ParallelOutboundMigrationsPerNode; n != nil && *n > 0 {
		m.PerNode = min(int(*n), contract.MostMigrationsPerNode)
	}
	to := &m.Configuration
	natural(&to.Progress, c.ProgressTimeout)
	set(&to.Unsafe, c.UnsafeMigrationOverride)
	override(to, overrides{
		c.AllowAutoConverge, c.AllowPostCopy, c.AllowWorkloadDisruption, c.BandwidthPerMigration,
		c.CompletionTimeoutPerGiB, downtime(c.MaxDowntimeMs, stall),
	})
	return m
}

// Under is how guests are moved to which a MigrationPolicy applies; nil: none does.
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

// overrides are what both the KubeVirt object and a policy may say.
type overrides struct {
	autoConverge, postCopy, disruption *bool
	bandwidth                          *resource.Quantity
	completion                         *int64
	maxDowntime                        *uint64
}

// override sets what is given. Who allows post-copy, and says nothing of disrupting the workload, allows that, too.
func override(c *contract.MigrationConfiguration, by overrides) {
	set(&c.AutoConverge, by.autoConverge)
	set(&c.PostCopy, by.postCopy)
	set(&c.Disruption, by.postCopy)
	set(&c.Disruption, by.disruption)
	natural(&c.CompletionPerGiB, by.completion)
	if q := by.bandwidth; q != nil && q.Sign() >= 0 {
		c.Bandwidth = q.Value()
	}
	if ms := by.maxDowntime; ms != nil && *ms > 0 && *ms <= maxDowntimeMs {
		c.MaxDowntimeMs = int64(*ms)
	}
}

// maxDowntimeMs is the most that the definitions of both objects take.
const maxDowntimeMs = 2_000_000

func downtime(ms *uint64, stallDetection bool) *uint64 {
	if !stallDetection {
		return nil
	}
	return ms
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func natural(to, from *int64) {
	if from != nil && *from >= 0 {
		*to = *from
	}
}

// MatchPolicy is the MigrationPolicy that applies to a VMI of those labels in a namespace of those labels, or nil. It
// is the one that asks for most of these labels, of the VMI's where that is equal, and of the first name where that is,
// too. As with KubeVirt a VMI without any label meets all selectors, and a policy without selectors applies to none.
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

// NamespaceMatters says that a policy asks for labels of namespaces.
func NamespaceMatters(policies []*v1alpha1.MigrationPolicy) bool {
	for _, p := range policies {
		if p.Spec.Selectors != nil && len(p.Spec.Selectors.NamespaceSelector) > 0 {
			return true
		}
	}
	return false
}

// score is how many labels a policy asks for.
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
	ok := has(vmi, s.VirtualMachineInstanceSelector) && has(namespace, s.NamespaceSelector)
	return score{len(s.VirtualMachineInstanceSelector), len(s.NamespaceSelector)}, ok
}

func has(labels map[string]string, selector v1alpha1.LabelSelector) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}
