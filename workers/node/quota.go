package node

import (
	"errors"
	"fmt"

	"github.com/virtflow/virtflow/workers/node/access/places"
	"github.com/virtflow/virtflow/workflows/contract"
)

// quota bounds what of one kind is in hand at once: in all, of one namespace and in one pod. A namespace gets half, so that one whose launchers
// hang leaves room for the others. What is too much is refused at once, and tried again later: it must not wait in one of the worker's slots, for
// then launchers that hang would keep others' work from being begun. The zero value has no place. It is safe for concurrent use.
type quota struct {
	kind  string // for the error
	most  int
	inPod int

	places places.Places
}

// take takes a place for the guest of a VMI in a pod; leave gives it back.
func (q *quota) take(vmi, pod contract.Object) (leave func(), err error) {
	ofPod := places.Share{Of: "pod " + pod.UID, Most: q.inPod}
	ofNamespace := places.Share{Of: "namespace " + vmi.Namespace, Most: max(1, q.most/2)} //nolint:mnd // half
	leave, err = q.places.Take(q.most, ofPod, ofNamespace)
	var full *places.FullError
	switch {
	case err == nil:
		return leave, nil
	case errors.As(err, &full) && full.Of == ofPod.Of:
		return nil, fmt.Errorf("an earlier %s in pod %s has not ended yet", q.kind, pod.UID)
	case errors.As(err, &full) && full.Of == ofNamespace.Of:
		return nil, fmt.Errorf("the node's worker has %d %ss in namespace %s in hand already, and begins no more of them", full.Taken, q.kind, vmi.Namespace)
	default:
		return nil, fmt.Errorf("the node's worker has %d %ss in hand already, and begins no more", q.most, q.kind)
	}
}
