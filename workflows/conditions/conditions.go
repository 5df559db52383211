package conditions

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
)

// Set returns list with c in it. A condition whose status and reason are unchanged keeps its place, its message and its
// time: KubeVirt overwrites a condition only when its status or reason differs. The transition time moves only with the
// status.
func Set(list []contract.Condition, c contract.Condition, now time.Time) []contract.Condition {
	i := indexOf(list, c.Type)
	out := slices.Clone(list)
	if i < 0 {
		if c.LastTransitionTime == nil {
			c.LastTransitionTime = &now
		}
		return append(out, c)
	}
	old := out[i]
	if old.Status == c.Status && old.Reason == c.Reason {
		return out
	}
	if c.LastTransitionTime == nil {
		c.LastTransitionTime = &now
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	out[i] = c
	return out
}

// Remove returns list without the condition of that type.
func Remove(list []contract.Condition, kind string) []contract.Condition {
	return slices.DeleteFunc(slices.Clone(list), func(c contract.Condition) bool { return c.Type == kind })
}

// Get returns the condition of that type, and whether there is one.
func Get(list []contract.Condition, kind string) (contract.Condition, bool) {
	if i := indexOf(list, kind); i >= 0 {
		return list[i], true
	}
	return contract.Condition{}, false
}

// HasStatus reports whether the condition of that type has that status.
func HasStatus(list []contract.Condition, kind, status string) bool {
	c, ok := Get(list, kind)
	return ok && c.Status == status
}

func indexOf(list []contract.Condition, kind string) int {
	return slices.IndexFunc(list, func(c contract.Condition) bool { return c.Type == kind })
}

// Show returns list with the condition of that type replaced by c, its message included, or without it when c is nil.
func Show(list []contract.Condition, kind string, c *contract.Condition, now time.Time) []contract.Condition {
	if c == nil {
		return Remove(list, kind)
	}
	if old, ok := Get(list, kind); ok && old.Message != c.Message {
		list = Remove(list, kind)
	}
	return Set(list, *c, now)
}
