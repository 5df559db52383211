package entity

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// BatchOptions are for activities that make some dozens of calls to Kubernetes.
func BatchOptions() workflow.ActivityOptions {
	o := ClusterOptions()
	o.StartToCloseTimeout = time.Minute
	return o
}
