package vm

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// stillDue reads what became of an instance whose end was asked for, and whose time is up, and says until when it may
// still take; now or earlier: it is late. An instance without a UID is not known well enough to be waited for.
func stillDue(ctx workflow.Context, vmi contract.Object, asked time.Time, limit time.Duration) time.Time {
	if vmi.UID == "" {
		return time.Time{}
	}
	r, err := entity.Call[contract.ReadVMIResult](ctx, contract.ActivityReadVMI,
		"see whether the instance's pod has been asked to end", contract.ReadVMIInput{VMI: vmi})
	if err != nil {
		return time.Time{}
	}
	return due(workflow.Now(ctx), asked, limit, r)
}

// due is until when the end of an instance may take, by what is true now. Its time counts from when its pods were asked
// to end: what waits for that in virtflow's own queues, or for the news that all is gone, is slow, and no failure, for as
// long as a call may wait there.
func due(now, asked time.Time, limit time.Duration, r contract.ReadVMIResult) time.Time {
	for _, pod := range r.Pods() {
		if pod.DeletionTimestamp != nil && !pod.Ended() {
			return pod.DeletionTimestamp.Add(entity.StopSlack) // the API server adds the grace period to it
		}
	}
	if r.VMI != nil && conditions.Is(r.VMI.Conditions, "Synchronized", "False") {
		return now // its workflow has tried, and its condition says what is wrong
	}
	return entity.Sooner(now.Add(limit), asked.Add(limit+entity.QueueLimit))
}
