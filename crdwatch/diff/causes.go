package diff

import (
	"slices"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
)

// Why an object is compared. put passes it on as the cause of the delivery, unless that is known better.
const (
	change = delivery.Changed
	resync = delivery.Resynced
)

// refine returns a more precise cause of a change. A resync remains one.
func refine(from, cause delivery.Cause) delivery.Cause {
	if from == resync {
		return resync
	}
	return cause
}

// podCause returns why a change of a pod is sent. isVMIDeleted: its VMI is being deleted, so that its entity expects
// the end of the pod.
func podCause(now contract.PodObservation, hasFinalizer, isVMIDeleted bool) delivery.Cause {
	switch {
	case !isVMIDeleted || now.DeletionTimestamp == nil:
		return delivery.Changed
	case !hasFinalizer, !now.Ended(): // its finalizer was removed, or its deletion has begun
		return delivery.OwnStep
	case now.DeletionGraceSeconds != nil && *now.DeletionGraceSeconds > 0:
		// The kubelet deletes it again, without grace.
		return delivery.Ending
	default:
		return delivery.Changed
	}
}

// podGoneCause returns why the end of a pod is sent: the workflow that removed the last finalizer knows of it. Where
// another program's finalizer came last, the workflow waits.
func podGoneCause(last contract.PodObservation, known bool) delivery.Cause {
	grace := last.DeletionGraceSeconds
	isOthers := func(f string) bool { return f != contract.FinalizerPod }
	if known && last.Ended() && grace != nil && *grace == 0 && !slices.ContainsFunc(last.Finalizers, isOthers) {
		return delivery.Finalized
	}
	return delivery.Gone
}

// copyCause returns why a change of a VMI is sent to its VM. isNew: all it shows is that the instance was made.
func copyCause(now contract.VMIObservation, isVMDeleted, isNew bool) delivery.Cause {
	switch {
	case isNew:
		return delivery.Created
	case now.DeletionTimestamp == nil:
		return delivery.Changed
	case isVMDeleted:
		return delivery.EndingWithOwner
	default:
		return delivery.Ending
	}
}

// isVMRequest reports whether a change of a VM is a request to its workflow: a new generation, a deletion, or a new
// state change request. The removal of a request that is done is none.
func isVMRequest(last, now contract.VMObservation) bool {
	return last.Generation != now.Generation || last.DeletionTimestamp == nil && now.DeletionTimestamp != nil ||
		slices.ContainsFunc(now.StateChangeRequests, func(asked contract.StateChangeRequest) bool {
			return !slices.ContainsFunc(last.StateChangeRequests, asked.Same)
		})
}

// isVMIRequest reports whether a change of an instance is a request to its workflow: its deletion.
func isVMIRequest(last, now contract.VMIObservation) bool {
	return last.DeletionTimestamp == nil && now.DeletionTimestamp != nil
}
