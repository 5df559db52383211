package observe

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/contract"
)

// Caps, in bytes and in elements. A Temporal payload may be 2 MiB; an observation stays below a few KiB.
const (
	maxWord        = 256  // names, reasons, users
	maxMessage     = 512  // messages of conditions
	maxTermination = 1024 // a container's termination message
	maxConditions  = 32
	maxRequests    = 64
	maxData        = 8
	maxIPs         = 8
	maxPhaseTimes  = 16
	maxPods        = 16
	maxLabels      = 64
)

// Lists that are written back as a whole are never cut: an element left out here would be removed there. The API server
// bounds them.

func word(s string) string { return contract.Cut(s, maxWord) }

// cloneOrNil returns a copy of list, nil if it is empty.
func cloneOrNil(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return slices.Clone(list)
}

// moment returns t in UTC, or nil, so that two observations of one object compare equal.
func moment(t *metav1.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	u := t.UTC()
	return &u
}

func condition(kind, status, reason, message string, changed metav1.Time) contract.Condition {
	return contract.Condition{
		Type: word(kind), Status: word(status), Reason: word(reason), Message: contract.Cut(message, maxMessage),
		LastTransitionTime: moment(&changed),
	}
}

// controller returns the owner of that kind which controls an object, or nil.
func controller(o metav1.Object, kind string) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.Kind != kind {
		return nil
	}
	return ref
}
