package entity

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// permanent are the application errors that another attempt cannot help.
func permanent() []string {
	return []string{contract.ErrorGone, contract.ErrorConflict, contract.ErrorInvalid, contract.ErrorStartFailed}
}

// Limits of calls to Kubernetes. They count work: how long one attempt may take, once it has begun, and how many
// attempts are made. Waiting in virtflow's own queues counts towards nothing: under load it takes long, and neither
// fails nor repeats what was asked for.
const (
	attemptLimit = 10 * time.Second
	attempts     = 9 // with the pauses between them, a minute of an API server that answers at once, and refuses
	QueueLimit   = time.Hour
)

// LocalOptions are for short idempotent calls to Kubernetes: done inside the workflow task, once. The SDK takes a
// missing limit of the whole for that of an attempt, and the whole includes the wait for a free slot.
func LocalOptions() workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		StartToCloseTimeout:    attemptLimit,
		ScheduleToCloseTimeout: QueueLimit,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
	}
}

// ClusterOptions are for the same calls once they have failed locally: then each attempt shows in history.
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
		NonRetryableErrorTypes: permanent(),
	}
}

// Limits of work on a node: many guests that start at once on one node wait for each other there.
const (
	nodeAttemptLimit = 30 * time.Second
	nodeAttempts     = 15 // with the pauses between them, a minute of a node worker that answers at once, and refuses
	nodeQueueLimit   = 10 * time.Minute
)

// NodeOptions are for work on a node's queue. That a node has no worker shows long before nodeQueueLimit: its pod is
// not ready, so the node entity takes the node from the scheduler and records an event. The limit ends the wait where
// nobody polls although the pod is ready.
func NodeOptions(node string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:              contract.NodeTaskQueue(node),
		ScheduleToStartTimeout: nodeQueueLimit,
		StartToCloseTimeout:    nodeAttemptLimit,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:        200 * time.Millisecond,
			MaximumInterval:        5 * time.Second,
			MaximumAttempts:        nodeAttempts,
			NonRetryableErrorTypes: permanent(),
		},
	}
}

// Call runs a Kubernetes activity: locally first, then, when that fails for a reason that may pass, as a regular
// activity. After some attempts the error is returned; the planner decides what it means. What says in plain words what
// is done; the UI shows it. An activity that takes nothing gets nil.
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

// CallThrough is Call for what must not be left half done: it goes on when ctx is cancelled, so that what it did is
// known to whoever undoes it. It does nothing when ctx is cancelled before it begins.
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

// arguments are those of an activity: one, or none.
func arguments(in any) []any {
	if in == nil {
		return nil
	}
	return []any{in}
}

// Retryable says whether the same call may succeed later.
func Retryable(err error) bool {
	if temporal.IsCanceledError(err) {
		return false
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return !app.NonRetryable() && !slices.Contains(permanent(), app.Type())
	}
	return true
}

// ErrorType is the type of an application error, "Timeout" for a time-out, or "".
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

// Message is the text that explains an activity's or a child's error, without the wrapping of the SDK, cut to 512
// bytes. Users read it in conditions, so Temporal's own errors are said in plain words.
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
			return "nobody has begun it in time"
		}
		return "there was no answer in time"
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

// Summary cuts a text to what may stand beside an activity, a timer or a workflow.
func Summary(s string) string { return contract.Cut(s, maxSummary) }

// Pause is how long a planner waits after a step has failed count times in a row: one second, doubled each time, at
// most two minutes.
func Pause(count int) time.Duration { return Backoff(count, time.Second, 2*time.Minute) }

// Backoff is the pause after count tries in a row: first, doubled with each more, at most longest.
func Backoff(count int, first, longest time.Duration) time.Duration {
	d := first
	for i := 1; i < count && d < longest; i++ {
		d *= 2
	}
	return min(d, longest)
}
