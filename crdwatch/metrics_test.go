package crdwatch

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// TestBothCausesOfAnEpochAreThereFromTheStart: what appears with its first epoch has no increase, and raises no alert.
func TestBothCausesOfAnEpochAreThereFromTheStart(t *testing.T) {
	reg := prometheus.NewRegistry()
	NewMetrics(reg)
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP virtflow_crdwatch_epochs_total Epochs that this process began, by which side was found to be an older copy: temporal or kubernetes.
# TYPE virtflow_crdwatch_epochs_total counter
virtflow_crdwatch_epochs_total{cause="kubernetes"} 0
virtflow_crdwatch_epochs_total{cause="temporal"} 0
`), "virtflow_crdwatch_epochs_total"))
}
