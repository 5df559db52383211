package entity

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uber-go/tally/v4"
	sdktally "go.temporal.io/sdk/contrib/tally"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/testsuite/metrics"
)

// TestMetricsOfWorkflowsAreDocumented: each metric is documented with its own labels, beside those of Temporal's SDK.
func TestMetricsOfWorkflowsAreDocumented(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	env := environment.New(func(suite *testsuite.WorkflowTestSuite) {
		suite.SetMetricsHandler(sdktally.NewMetricsHandler(scope))
	})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		var m Manual
		m.RecordClosed(&Transition{Operation: contract.OperationStart}, contract.TransitionClosed{}, Outcome{})
		m.RecordMetrics(ctx)
		countFailure(ctx, "write the status", errors.New("no"))
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	got := map[string]map[string]string{} // labels by "type name"
	for _, timer := range scope.Snapshot().Timers() {
		got["histogram "+timer.Name()+"_seconds"] = timer.Tags()
	}
	for _, counter := range scope.Snapshot().Counters() {
		got["counter "+counter.Name()+"_total"] = counter.Tags()
	}
	for name := range got {
		if !strings.Contains(name, " virtflow_") {
			delete(got, name) // the SDK's
		}
	}
	page, err := metrics.Page()
	require.NoError(t, err)
	page = slices.DeleteFunc(page, func(m metrics.Metric) bool { return m.Package != "workflows/entity" })
	require.Len(t, page, len(got))
	for _, m := range page {
		labels, found := got[m.Type+" "+m.Name]
		require.True(t, found, "docs/metrics.md has %s %s, and the code has not", m.Type, m.Name)
		for _, sdks := range []string{"client_name", "namespace", "task_queue", "worker_type", "workflow_type"} {
			delete(labels, sdks)
		}
		require.ElementsMatch(t, m.Labels, slices.Collect(maps.Keys(labels)), m.Name)
	}
}
