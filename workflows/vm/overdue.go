package vm

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// inspect reads what has become of an instance when the time of what was asked for is up. It may not have been heard
// of: under load, news wait.
func inspect(ctx workflow.Context, vmi contract.Object) (contract.ReadVMIResult, error) {
	return entity.Call[contract.ReadVMIResult](ctx, contract.ActivityReadVMI, "see what has become of the instance",
		contract.ReadVMIInput{VMI: vmi})
}

// due is until when the end of an instance that is still there may take; now or earlier: it is late. Its time counts
// from when its pods were asked to end: what waits for that in virtflow's own queues is slow, and no failure, for as
// long as a call may wait there.
func due(now, asked time.Time, limit time.Duration, r contract.ReadVMIResult) time.Time {
	unasked, ends := false, time.Time{}
	for _, pod := range r.Pods() {
		switch at := pod.DeletionTimestamp; {
		case pod.Ended():
		case at == nil:
			unasked = true
		case at.After(ends):
			ends = *at // the API server adds the grace period to it
		}
	}
	switch {
	case r.VMI.DeletionTimestamp == nil: // it is undone
		return now
	case !unasked && !ends.IsZero():
		return ends.Add(entity.StopSlack)
	case !unasked && !slices.ContainsFunc(r.VMI.Finalizers, ours): // somebody else's hold it
		return now
	}
	if c, ok := conditions.Get(r.VMI.Conditions, "Synchronized"); ok && c.Reason == contract.ReasonFailedDelete {
		return now // its workflow has tried, and the condition says what is wrong
	}
	return entity.Sooner(now.Add(limit), asked.Add(limit+entity.QueueLimit))
}

func ours(finalizer string) bool {
	return finalizer == contract.FinalizerVM || finalizer == contract.FinalizerVMI
}
