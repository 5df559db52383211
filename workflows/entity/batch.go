package entity

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// BatchOptions are for activities that make some dozens of calls to Kubernetes.
func BatchOptions() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:              contract.ControlTaskQueue,
		StartToCloseTimeout:    30 * time.Second,
		ScheduleToCloseTimeout: 2 * time.Minute,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:        500 * time.Millisecond,
			MaximumInterval:        10 * time.Second,
			NonRetryableErrorTypes: permanent(),
		},
	}
}
