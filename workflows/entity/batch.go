package entity

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// BatchOptions are for activities that make up to some hundred calls to Kubernetes.
func BatchOptions() workflow.ActivityOptions {
	o := ClusterOptions()
	o.StartToCloseTimeout = time.Minute
	return o
}

// CallBatch runs such an activity. What says in plain words what is done; the UI shows it.
func CallBatch[Out any](ctx workflow.Context, activity, what string, in any) (Out, error) {
	var out Out
	o := BatchOptions()
	o.Summary = Summary(what)
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), activity, in).Get(ctx, &out)
	return out, err
}
