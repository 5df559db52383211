package crdwatch

import (
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// What an object says on its way out decides nothing by itself where its workflow has asked for that very end, and
// there is more of it in a moment: it waits for that. A workflow task costs Temporal more than all else of a deletion,
// and what arrives while a workflow completes has the task done twice.
const (
	// echoHold is for what the workflow has done itself, and endHold for what is about to be final.
	echoHold = 2 * time.Second
	endHold  = time.Second
	// goingHold is for the end of an instance whose VM goes, too: that waits for it to be gone.
	goingHold = 5 * time.Second
)

// madeHold is for an instance that has just been made: its VM has had it made, and shows that it starts. Most guests
// run within that time, also under load. Whatever else its VM's workflow is to hear, or the instance has to say, has it
// sent at once, unless that waits itself.
const madeHold = 30 * time.Second

// podHold is how long what a pod says may wait for what it says next. Going: its VMI is being deleted, so that the end
// of the pod is no news.
func podHold(now contract.PodObservation, held, going bool) time.Duration {
	switch {
	case !going || now.DeletionTimestamp == nil:
		return 0
	case !held, !now.Ended(): // its finalizer was removed, or its deletion has begun
		return echoHold
	case now.DeletionGraceSeconds != nil && *now.DeletionGraceSeconds > 0: // the kubelet deletes it once more, for good
		return endHold
	default:
		return 0
	}
}

// podGoneHold is how long the end of a pod may wait: whoever removed the last finalizer knows.
func podGoneHold(last contract.PodObservation, known bool) time.Duration {
	if grace := last.DeletionGraceSeconds; known && last.Ended() && grace != nil && *grace == 0 {
		return endHold
	}
	return 0
}

// copyHold is how long what a VMI says may wait on its way to its VM. Made: it says only that it was made.
func copyHold(now contract.VMIObservation, vmGoes, made bool) time.Duration {
	switch {
	case made:
		return madeHold
	case now.DeletionTimestamp == nil:
		return 0
	case vmGoes:
		return goingHold
	default:
		return endHold
	}
}
