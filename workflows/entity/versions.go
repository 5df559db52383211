package entity

import (
	"slices"
	"strconv"
)

// Newer reports whether an object's resourceVersion a comes after b. Kubernetes resourceVersions of one resource are
// decimal numbers that grow (promised since 1.35); a text that is not a number counts as newer, so that none is lost.
func Newer(a, b string) bool {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	if errA != nil || errB != nil {
		return true
	}
	return x > y
}

// Without returns list without the dropped strings, never nil, in the same order.
func Without(list []string, drop ...string) []string {
	out := make([]string, 0, len(list))
	for _, x := range list {
		if !slices.Contains(drop, x) {
			out = append(out, x)
		}
	}
	return out
}

// OlderPart reports whether a part of an observation is older than what is known of it. Such a part describes other
// objects and has a version of its own; where that is unknown, the versions of the whole are compared. Of two of the
// same version the later one to arrive counts.
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
