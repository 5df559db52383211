package entity_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uber-go/tally/v4"
	sdktally "go.temporal.io/sdk/contrib/tally"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestMeasuresTransitions: the metric has the labels operation and outcome, and no object's name.
func TestMeasuresTransitions(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, c := range map[string]struct {
		closed contract.TransitionClosed
		made   string
	}{
		"done":      {},
		"refused":   {made: "the VM is halted by now"},
		"cancelled": {closed: contract.TransitionClosed{Canceled: true, Error: "cancelled"}, made: "superseded"},
		"deadline": {closed: contract.TransitionClosed{Error: "not running in time",
			ErrorType: contract.ErrorDeadline}, made: "not running in time"},
		"failed": {closed: contract.TransitionClosed{Error: "no", ErrorType: contract.ErrorEnded}, made: "no"},
	} {
		scope := tally.NewTestScope("", nil)
		env := environment.New(func(suite *testsuite.WorkflowTestSuite) {
			suite.SetMetricsHandler(sdktally.NewMetricsHandler(scope))
		})
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			var m entity.Manual
			m.RecordClosed(&entity.Transition{ID: "vm/a/b/start/1", Operation: contract.OperationStart, Since: began},
				c.closed, entity.Outcome{Error: c.made, At: began.Add(3 * time.Second)})
			m.RecordMetrics(ctx)
			m.RecordMetrics(ctx) // each is counted once
			return nil
		})
		require.NoError(t, env.GetWorkflowError())
		found := false
		for _, timer := range scope.Snapshot().Timers() {
			if timer.Name() != "virtflow_transition_duration" {
				continue
			}
			found = true
			require.Equal(t, []time.Duration{3 * time.Second}, timer.Values())
			require.Equal(t, "start", timer.Tags()["operation"])
			require.Equal(t, want, timer.Tags()["outcome"])
			for name, value := range timer.Tags() {
				require.NotContains(t, value, "a/b", "the label %s names an object", name)
			}
		}
		require.True(t, found, want)
	}
}
