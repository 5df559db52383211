package entity

import (
	"slices"
	"strconv"
)

// Newer says whether an object's resourceVersion a comes after b. Kubernetes resourceVersions of one resource are
// decimal numbers that grow (so promised since 1.35); what is not a number is taken as newer, so that nothing is lost.
func Newer(a, b string) bool {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	if errA != nil || errB != nil {
		return true
	}
	return x > y
}

// Without is list without s, never nil, in the same order.
func Without(list []string, drop ...string) []string {
	out := make([]string, 0, len(list))
	for _, x := range list {
		if !slices.Contains(drop, x) {
			out = append(out, x)
		}
	}
	return out
}
