package control

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

// ConditionFieldsWithoutEffect of the KubeVirt object is True while it has fields that are set and have no effect in
// virtflow, or not all of it since their value is invalid: its message lists them.
const ConditionFieldsWithoutEffect kubevirt.KubeVirtConditionType = "FieldsWithoutEffect"

// Reasons of the condition FieldsWithoutEffect.
const (
	ReasonFieldsIgnored   = "FieldsIgnored"
	ReasonNoFieldsIgnored = "NoFieldsIgnored"
)

// Bounds of the list in the condition FieldsWithoutEffect; the length is in bytes.
const (
	mostFieldsListed = 50
	maxFieldsList    = 4000
)

// fieldsCondition returns the condition FieldsWithoutEffect for the paths of such fields.
func fieldsCondition(paths []string, now time.Time) kubevirt.KubeVirtCondition {
	c := kubevirt.KubeVirtCondition{
		Type: ConditionFieldsWithoutEffect, Status: corev1.ConditionFalse, Reason: ReasonNoFieldsIgnored,
		Message:            "No field without effect is set.",
		LastTransitionTime: metav1.NewTime(now), LastProbeTime: metav1.NewTime(now),
	}
	if len(paths) == 0 {
		return c
	}
	c.Status, c.Reason = corev1.ConditionTrue, ReasonFieldsIgnored
	c.Message = "These fields have no effect in virtflow, or an invalid value (docs/unsupported.md): " + listFields(paths)
	return c
}

// listFields lists the first paths, each of them whole, and the number of the others.
func listFields(paths []string) string {
	listed, n := "", 0
	for n < min(len(paths), mostFieldsListed) && len(listed)+len(", ")+len(paths[n]) <= maxFieldsList {
		if n > 0 {
			listed += ", "
		}
		listed += paths[n]
		n++
	}
	switch more := len(paths) - n; {
	case more == 0:
		return listed
	case n == 0:
		return fmt.Sprintf("%d with long paths", more)
	default:
		return fmt.Sprintf("%s and %d more", listed, more)
	}
}

// withFields returns the conditions with the condition FieldsWithoutEffect. Its time is that of the last change of its
// status.
func withFields(conditions []kubevirt.KubeVirtCondition, c kubevirt.KubeVirtCondition) []kubevirt.KubeVirtCondition {
	i := indexOf(conditions, c.Type)
	switch {
	case i < 0:
		return append(conditions, c)
	case conditions[i].Status == c.Status && conditions[i].Message == c.Message:
	case conditions[i].Status == c.Status:
		conditions[i].Reason, conditions[i].Message, conditions[i].LastProbeTime = c.Reason, c.Message, c.LastProbeTime
	default:
		conditions[i] = c
	}
	return conditions
}
