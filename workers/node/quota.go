package node

import (
	"errors"
	"fmt"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/inflight"
)

// quota limits the calls of one kind that are in progress: in all, for one namespace and in one pod. A namespace gets
// half, so that one whose launchers hang leaves room for the others. A call above a limit is refused at once, and
// Temporal retries it: if it waited in one of the worker's slots, launchers that hang would block the calls of others.
// The zero value admits none. It is safe for concurrent use.
type quota struct {
	kind  string // for the error
	most  int
	inPod int

	inFlight inflight.Limit
}

// acquire counts a call for the guest of a VMI in a pod, until release is called.
func (q *quota) acquire(vmi, pod contract.Object) (release func(), err error) {
	ofPod := inflight.Quota{Owner: "pod " + pod.UID, Max: q.inPod}
	ofNamespace := inflight.Quota{Owner: "namespace " + vmi.Namespace, Max: max(1, q.most/2)}
	release, err = q.inFlight.Acquire(q.most, ofPod, ofNamespace)
	var full *inflight.ExceededError
	switch {
	case err == nil:
		return release, nil
	case errors.As(err, &full) && full.Owner == ofPod.Owner:
		return nil, fmt.Errorf("an earlier %s in pod %s has not ended yet", q.kind, pod.UID)
	case errors.As(err, &full) && full.Owner == ofNamespace.Owner:
		return nil, fmt.Errorf("the node worker already has %d %ss in progress for namespace %s, which is its limit",
			full.InFlight, q.kind, vmi.Namespace)
	default:
		return nil, fmt.Errorf("the node worker already has %d %ss in progress, which is its limit", q.most, q.kind)
	}
}
