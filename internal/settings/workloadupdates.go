package settings

import (
	"slices"
	"time"

	kubevirt "kubevirt.io/api/core/v1"
)

// Defaults of KubeVirt 1.9 for workload updates. By default nothing is done about outdated launchers.
const (
	defaultEvictionBatch    = 10
	defaultEvictionInterval = time.Minute
)

// WorkloadUpdates has the settings of spec.workloadUpdateStrategy.
type WorkloadUpdates struct {
	// Migrate permits migrations of guests that can migrate, and Evict the eviction of the others.
	Migrate, Evict bool
	// Batch is how many are evicted at a time, and Interval the time between two batches.
	Batch    int
	Interval time.Duration
}

// workloadUpdates reads the strategy. An invalid value counts as not set.
func workloadUpdates(s *kubevirt.KubeVirtWorkloadUpdateStrategy) WorkloadUpdates {
	u := WorkloadUpdates{
		Migrate: slices.Contains(s.WorkloadUpdateMethods, kubevirt.WorkloadUpdateMethodLiveMigrate),
		Evict:   slices.Contains(s.WorkloadUpdateMethods, kubevirt.WorkloadUpdateMethodEvict),
		Batch:   defaultEvictionBatch, Interval: defaultEvictionInterval,
	}
	if n := s.BatchEvictionSize; n != nil && *n > 0 {
		u.Batch = *n
	}
	if d := s.BatchEvictionInterval; d != nil && d.Duration >= 0 {
		u.Interval = d.Duration
	}
	return u
}
