package node

import (
	"errors"
	"fmt"

	"github.com/virtflow/virtflow/internal/inflight"
	"github.com/virtflow/virtflow/workflows/contract"
)

// quota bounds what of one kind is in hand at once: in all, of one namespace and in one pod. A namespace gets half, so
// that one whose launchers hang leaves room for the others. What is too much is refused at once, and tried again later:
// it must not wait in one of the worker's slots, for then launchers that hang would keep others' work from being begun.
// The zero value takes nothing. It is safe for concurrent use.
type quota struct {
	kind  string // for the error
	most  int
	inPod int

	inFlight inflight.Limit
}

// take counts what is begun for the guest of a VMI in a pod, until release is called.
func (q *quota) take(vmi, pod contract.Object) (release func(), err error) {
	ofPod := inflight.Quota{Owner: "pod " + pod.UID, Max: q.inPod}
	ofNamespace := inflight.Quota{Owner: "namespace " + vmi.Namespace, Max: max(1, q.most/2)} //nolint:mnd // half
	release, err = q.inFlight.Acquire(q.most, ofPod, ofNamespace)
	var full *inflight.ExceededError
	switch {
	case err == nil:
		return release, nil
	case errors.As(err, &full) && full.Owner == ofPod.Owner:
		return nil, fmt.Errorf("an earlier %s in pod %s has not ended yet", q.kind, pod.UID)
	case errors.As(err, &full) && full.Owner == ofNamespace.Owner:
		return nil, fmt.Errorf("the node's worker has %d %ss in namespace %s in hand already, and begins no "+
			"more of them", full.InFlight, q.kind, vmi.Namespace)
	default:
		return nil, fmt.Errorf("the node's worker has %d %ss in hand already, and begins no more", q.most, q.kind)
	}
}
