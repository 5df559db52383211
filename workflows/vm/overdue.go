package vm

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// inspect reads what has become of an instance when the time of what was asked for is up; false: that is not known. It
// may not have been heard of: under load, news wait.
func inspect(ctx workflow.Context, vmi contract.Object) (r contract.ReadVMIResult, known bool) {
	if vmi.UID == "" {
		return r, false
	}
	r, err := entity.Call[contract.ReadVMIResult](ctx, contract.ActivityReadVMI, "see what has become of the instance",
		contract.ReadVMIInput{VMI: vmi})
	return r, err == nil
}

// due is until when the end of an instance that is still there may take; now or earlier: it is late. Its time counts
// from when its pods were asked to end: what waits for that in virtflow's own queues is slow, and no failure, for as
// long as a call may wait there.
func due(now, asked time.Time, limit time.Duration, r contract.ReadVMIResult) time.Time {
	for _, pod := range r.Pods() {
		if pod.DeletionTimestamp != nil && !pod.Ended() {
			return pod.DeletionTimestamp.Add(entity.StopSlack) // the API server adds the grace period to it
		}
	}
	if conditions.Is(r.VMI.Conditions, "Synchronized", "False") {
		return now // its workflow has tried, and its condition says what is wrong
	}
	return entity.Sooner(now.Add(limit), asked.Add(limit+entity.QueueLimit))
}
