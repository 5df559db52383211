package entity

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// The metrics of workflows, as their code names them: Prometheus has them with _seconds and _total behind. Their labels
// are bounded: never the name of an object. They are those of the control worker that saw it happen, and are not told
// once more when a history replays; where a workflow task is done twice, they may be.
const (
	metricTransitions  = "virtflow_transition_duration"
	metricStepFailures = "virtflow_step_failures"
	labelOperation     = "operation"
	labelOutcome       = "outcome"
	labelStep          = "step"
	labelError         = "error"
)

// How a step failed, as the label error says it: nobody answered in time, or somebody said no.
const (
	failureTimeout = "timeout"
	failureError   = "failed"
)

// How a transition closed, as the label outcome says it.
const (
	closedDone      = "done"
	closedRefused   = "refused" // what was true did not ask for it any more
	closedCancelled = "cancelled"
	closedDeadline  = "deadline" // its time was up
	closedFailed    = "failed"
)

// outcomeOf is the label for how a transition closed, and for what its entity made of that.
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

// measure is what metrics are told of a transition that has closed.
type measure struct {
	operation contract.Operation
	outcome   string
	took      time.Duration
}

// Measure tells the metrics of the transitions that have closed since it did so last.
func (m *Manual) Measure(ctx workflow.Context) {
	for _, closed := range m.unmeasured {
		workflow.GetMetricsHandler(ctx).
			WithTags(map[string]string{labelOperation: string(closed.operation), labelOutcome: closed.outcome}).
			Timer(metricTransitions).Record(closed.took)
	}
	m.unmeasured = nil
}

// countFailure counts a step that did not succeed. The error's own type is no label: nodes could make up any number.
func countFailure(ctx workflow.Context, step string, err error) {
	kind := failureError
	if temporal.IsTimeoutError(err) {
		kind = failureTimeout
	}
	workflow.GetMetricsHandler(ctx).WithTags(map[string]string{labelStep: step, labelError: kind}).
		Counter(metricStepFailures).Inc(1)
}
