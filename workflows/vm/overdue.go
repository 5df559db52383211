package vm

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// inspect reads an instance at the deadline of an operation. Its current state may not have been observed: under load,
// observations are delayed.
func inspect(ctx workflow.Context, vmi contract.Object) (contract.ReadVMIResult, error) {
	return entity.Call[contract.ReadVMIResult](ctx, contract.ActivityReadVMI, "read the instance at its deadline",
		contract.ReadVMIInput{VMI: vmi})
}

// endDeadline returns the new deadline for the end of an existing instance; now or earlier means that it is late. The
// time counts from when its pods were deleted. Waiting in virtflow's own queues before that is slow, but no failure,
// for as long as a call may wait there.
func endDeadline(now, asked time.Time, limit time.Duration, r contract.ReadVMIResult) time.Time {
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
	case r.VMI.DeletionTimestamp == nil: // the deletion was undone by a restore of etcd
		return now
	case !unasked && !ends.IsZero():
		return ends.Add(entity.StopSlack)
	case !unasked && !slices.ContainsFunc(r.VMI.Finalizers, isOwnFinalizer): // foreign finalizers hold it
		return now
	}
	if c, ok := conditions.Get(r.VMI.Conditions, "Synchronized"); ok && c.Reason == contract.ReasonFailedDelete {
		return now // its workflow has tried, and the condition has the problem
	}
	return entity.Sooner(now.Add(limit), asked.Add(limit+entity.QueueLimit))
}

func isOwnFinalizer(finalizer string) bool {
	return finalizer == contract.FinalizerVM || finalizer == contract.FinalizerVMI
}
