package entity

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
)

// permanentErrors returns the types of application errors after which a retry of the call is useless. Nothing may be
// added: recorded histories depend on which calls are retried. An activity marks its own final failures instead.
func permanentErrors() []string {
	return []string{contract.ErrorGone, contract.ErrorConflict, contract.ErrorInvalid, contract.ErrorStartFailed}
}

// Limits of calls to Kubernetes. They bound the duration of one attempt, and the number of attempts. The wait in
// virtflow's own queues is not bounded: under load it is long, and must neither fail nor repeat a call.
const (
	attemptLimit = 10 * time.Second
	attempts     = 9 // with the pauses between them, a minute of an API server that answers each with an error
	QueueLimit   = time.Hour
)

// LocalOptions returns the options of short idempotent calls to Kubernetes: one attempt, within the workflow task.
// Without a schedule-to-close time-out the SDK would use that of the attempt, which would include the wait for a free
// slot.
func LocalOptions() workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		StartToCloseTimeout:    attemptLimit,
		ScheduleToCloseTimeout: QueueLimit,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
	}
}

// ClusterOptions returns the options of the same calls once they have failed locally: each attempt is in the history.
func ClusterOptions() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:           contract.ControlTaskQueue,
		StartToCloseTimeout: attemptLimit,
		RetryPolicy:         clusterRetries(),
	}
}

func clusterRetries() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{
		InitialInterval:        500 * time.Millisecond,
		MaximumInterval:        10 * time.Second,
		MaximumAttempts:        attempts,
		NonRetryableErrorTypes: permanentErrors(),
	}
}

// Limits of work on a node: many guests that start at once on one node wait there for each other.
const (
	nodeAttemptLimit = 30 * time.Second
	nodeAttempts     = 15 // with the pauses between them, a minute of a node worker that answers each with a refusal
	nodeQueueLimit   = 10 * time.Minute
)

// NodeOptions returns the options of work on a node's queue. A missing worker is noticed long before nodeQueueLimit:
// its pod is not ready, so the node entity marks the node as unschedulable and records an event. The limit ends the
// wait where no worker polls although the pod is ready.
func NodeOptions(node string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:              contract.NodeTaskQueue(node),
		ScheduleToStartTimeout: nodeQueueLimit,
		StartToCloseTimeout:    nodeAttemptLimit,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:        200 * time.Millisecond,
			MaximumInterval:        5 * time.Second,
			MaximumAttempts:        nodeAttempts,
			NonRetryableErrorTypes: permanentErrors(),
		},
	}
}

// Call runs a Kubernetes activity: first as a local one, and after a retryable error as a regular one. When its
// attempts are used up it returns the error, and the planner decides. what describes the call in the UI. in is nil for
// an activity without input.
func Call[Out any](ctx workflow.Context, activity, what string, in any) (Out, error) {
	out, err := callLocally[Out](ctx, activity, what, in)
	if err == nil || !Retryable(err) {
		return out, err
	}
	return callAgain[Out](ctx, activity, what, in, err)
}

// Do is Call for an activity without a result.
func Do(ctx workflow.Context, activity, what string, in any) error {
	_, err := Call[struct{}](ctx, activity, what, in)
	return err
}

// CallThrough is Call for what must not be left half done: it continues when ctx is cancelled, so that whatever
// compensates knows the result. It does nothing when ctx is cancelled before.
func CallThrough[Out any](ctx workflow.Context, activity, what string, in any) (Out, error) {
	if err := ctx.Err(); err != nil {
		var none Out
		return none, err
	}
	dctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	return Call[Out](dctx, activity, what, in)
}

func callLocally[Out any](ctx workflow.Context, activity, what string, in any) (Out, error) {
	var out Out
	o := LocalOptions()
	o.Summary = Summary(what)
	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, o), activity, arguments(in)...).
		Get(ctx, &out)
	return out, err
}

// callAgain calls an activity whose local attempts have ended with an error.
func callAgain[Out any](ctx workflow.Context, activity, what string, in any, before error) (Out, error) {
	var out Out
	o := ClusterOptions()
	o.Summary = Summary(what + ", after local attempts failed: " + Message(before))
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), activity, arguments(in)...).Get(ctx, &out)
	return out, err
}

// arguments returns the arguments of an activity: one, or none.
func arguments(in any) []any {
	if in == nil {
		return nil
	}
	return []any{in}
}

// Retryable reports whether the same call may succeed later.
func Retryable(err error) bool {
	if temporal.IsCanceledError(err) {
		return false
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return !app.NonRetryable() && !slices.Contains(permanentErrors(), app.Type())
	}
	return true
}

// ErrorType returns the type of an application error, "Timeout" for a time-out, or "".
func ErrorType(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Type()
	}
	if temporal.IsTimeoutError(err) {
		return "Timeout"
	}
	return ""
}

// maxMessage bounds what an error may add to history, status and logs, in bytes.
const maxMessage = 512

// Message returns the text that explains an activity's or a child's error, without the SDK's wrapping, cut to 512
// bytes. Users read it in conditions, so it explains Temporal's own errors.
func Message(err error) string {
	var (
		app     *temporal.ApplicationError
		timeout *temporal.TimeoutError
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &app):
		return contract.Cut(app.Message(), maxMessage)
	case errors.As(err, &timeout):
		if timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START {
			return "schedule-to-start time-out: no worker picked up the activity"
		}
		return "the activity timed out"
	case temporal.IsCanceledError(err):
		return "it was cancelled"
	case temporal.IsTerminatedError(err):
		return "it was terminated"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return contract.Cut(err.Error(), maxMessage)
}

// maxSummary keeps a summary well below Temporal's limit (limit.userMetadataSummarySize: 400 bytes, as JSON), beyond
// which the server refuses the whole command.
const maxSummary = 200

// Summary cuts a text to the size that a command's summary may have.
func Summary(s string) string { return contract.Cut(s, maxSummary) }

// StepBackoff returns the back-off after a step has failed count times in a row: one second, doubled each time, at most
// two minutes.
func StepBackoff(count int) time.Duration { return Backoff(count, time.Second, 2*time.Minute) }

// Backoff returns the pause after count tries in a row: first, doubled with each more, at most longest.
func Backoff(count int, first, longest time.Duration) time.Duration {
	d := first
	for i := 1; i < count && d < longest; i++ {
		d *= 2
	}
	return min(d, longest)
}
