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

// OlderPart says that a part of an observation is older than what is known of it. Such a part has a version of its own,
// since it is of other objects; where it is not known any more, the versions of the whole are compared. Of two of the
// same version the one that comes last counts.
func OlderPart[T any, P Observed[T]](known, version string, whole *T, o T) bool {
	switch {
	case known != "" && version != "":
		return Newer(known, version)
	case version != "", whole == nil:
		return false
	}
	_, before := P(whole).Version()
	_, now := P(&o).Version()
	return Newer(before, now)
}
