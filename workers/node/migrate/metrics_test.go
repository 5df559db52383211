package migrate

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

// TestMigrationMetrics: a migration has metrics while it is under way.
func TestMigrationMetrics(t *testing.T) {
	r := newRig(t, first)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newProgress(r.sessions))
	count := func() int {
		n, err := testutil.GatherAndCount(registry)
		require.NoError(t, err)
		return n
	}
	r.prepare(t, time.Now().Add(soon))
	received, end := make(chan struct{}), make(chan struct{})
	r.source.migrate = func(_ context.Context, progress func(contract.MigrationProgress)) (Departure, error) {
		progress(contract.MigrationProgress{UID: first, Total: 4000, Processed: 3500, Remaining: 1000, DirtyRate: 12,
			Rate: 45})
		close(received)
		<-end
		return Departure{Reason: "enough"}, nil
	}
	require.Zero(t, count())
	s := r.begin(t)
	<-received
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP kubevirt_vmi_migration_data_bytes_total Bytes of a guest that are to be at its target.
# TYPE kubevirt_vmi_migration_data_bytes_total counter
kubevirt_vmi_migration_data_bytes_total{name="web",namespace="a",node="node1"} 4000
# HELP kubevirt_vmi_migration_data_processed_bytes Bytes of a guest that were copied, some of them more than once.
# TYPE kubevirt_vmi_migration_data_processed_bytes gauge
kubevirt_vmi_migration_data_processed_bytes{name="web",namespace="a",node="node1"} 3500
# HELP kubevirt_vmi_migration_data_remaining_bytes Bytes of a guest that are still to be copied.
# TYPE kubevirt_vmi_migration_data_remaining_bytes gauge
kubevirt_vmi_migration_data_remaining_bytes{name="web",namespace="a",node="node1"} 1000
# HELP kubevirt_vmi_migration_dirty_memory_rate_bytes Bytes of its memory that a guest changes in a second.
# TYPE kubevirt_vmi_migration_dirty_memory_rate_bytes gauge
kubevirt_vmi_migration_dirty_memory_rate_bytes{name="web",namespace="a",node="node1"} 12
# HELP kubevirt_vmi_migration_memory_transfer_rate_bytes Bytes of a guest's memory that are copied in a second.
# TYPE kubevirt_vmi_migration_memory_transfer_rate_bytes gauge
kubevirt_vmi_migration_memory_transfer_rate_bytes{name="web",namespace="a",node="node1"} 45
`)))
	close(end)
	ended(t, s)
	require.Zero(t, count(), "it has ended")
}
