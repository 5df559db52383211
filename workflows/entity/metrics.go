package entity

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
)

// The metrics of workflows, by their names in code: Prometheus adds _seconds and _total. Their labels are bounded:
// never the name of an object. The control worker that runs the workflow task counts, and a replay does not count
// again; a workflow task that is repeated may.
const (
	metricTransitions  = "virtflow_transition_duration"
	metricStepFailures = "virtflow_step_failures"
	labelOperation     = "operation"
	labelOutcome       = "outcome"
	labelStep          = "step"
	labelError         = "error"
)

// Values of the label error: the step timed out, or it was refused.
const (
	failureTimeout = "timeout"
	failureError   = "failed"
)

// Values of the label outcome: how a transition closed.
const (
	closedDone      = "done"
	closedRefused   = "refused" // the current state did not call for it any longer
	closedCancelled = "cancelled"
	closedDeadline  = "deadline" // it reached its deadline
	closedFailed    = "failed"
)

// outcomeOf returns the label for how a transition closed, and for the entity's view of that.
func outcomeOf(c contract.TransitionClosed, o Outcome) string {
	switch {
	case c.Canceled:
		return closedCancelled
	case c.ErrorType == contract.ErrorDeadline:
		return closedDeadline
	case c.Error != "":
		return closedFailed
	case o.Error != "":
		return closedRefused
	default:
		return closedDone
	}
}

// measure has the metrics of one transition that has closed.
type measure struct {
	operation contract.Operation
	outcome   string
	took      time.Duration
}

// RecordMetrics records the metrics of the transitions that have closed since the last call.
func (m *Manual) RecordMetrics(ctx workflow.Context) {
	for _, closed := range m.unmeasured {
		workflow.GetMetricsHandler(ctx).
			WithTags(map[string]string{labelOperation: string(closed.operation), labelOutcome: closed.outcome}).
			Timer(metricTransitions).Record(closed.took)
	}
	m.unmeasured = nil
}

// countFailure counts a failed step. The error's own type is no label: nodes could make up any number of types.
func countFailure(ctx workflow.Context, step string, err error) {
	kind := failureError
	if temporal.IsTimeoutError(err) {
		kind = failureTimeout
	}
	workflow.GetMetricsHandler(ctx).WithTags(map[string]string{labelStep: step, labelError: kind}).
		Counter(metricStepFailures).Inc(1)
}
