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

// WorkloadUpdates is what spec.workloadUpdateStrategy says.
type WorkloadUpdates struct {
	// Migrate: guests that can be moved are. Evict: the others are evicted.
	Migrate, Evict bool
	// Batch is how many are evicted at a time, and Interval what lies between two such times.
	Batch    int
	Interval time.Duration
}

// workloadUpdates reads it. A value that makes no sense counts as not set.
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
