package crdwatch

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// TestExportsBothEpochCausesAtStart: a series that appears with its first epoch has no increase, and raises no alert.
func TestExportsBothEpochCausesAtStart(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newEpochMetrics(reg)
	require.Equal(t, 2, testutil.CollectAndCount(m.epochs))
	for _, cause := range []string{causeTemporal, causeKubernetes} {
		require.Zero(t, testutil.ToFloat64(m.epochs.WithLabelValues(cause)))
	}
}
