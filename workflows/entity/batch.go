package entity

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// BatchOptions returns the options of activities that make up to some hundred calls to Kubernetes.
func BatchOptions() workflow.ActivityOptions {
	o := ClusterOptions()
	o.StartToCloseTimeout = time.Minute
	return o
}

// few is the number of items up to which an activity takes no longer than one call may.
const few = 5

// CallBatch is Call for an activity about that many items. For more than a few it runs as a regular activity at once,
// which may take longer.
func CallBatch[Out any](ctx workflow.Context, activity, what string, of int, in any) (Out, error) {
	if of <= few {
		return Call[Out](ctx, activity, what, in)
	}
	var out Out
	o := BatchOptions()
	o.Summary = Summary(what)
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), activity, in).Get(ctx, &out)
	return out, err
}
