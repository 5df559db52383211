package entity

// Observed is an observation of one Kubernetes object, by pointer: which object, which version of it, and whether it
// exists no more.
type Observed[T any] interface {
	*T
	// Version names the object and its version.
	Version() (uid, resourceVersion string)
	// Vanished is the object's end as something that can be read and set.
	Vanished() *bool
	// Unversion drops the version.
	Unversion()
}

// Newest folds an observation into what is known of an object (nil: nothing). It is the newer of the two, and known
// itself where o says nothing new: an observation may come twice, late and out of order. An object that is gone does
// not come back, but another one of its name may have taken its place. Where only its absence was read, and known has
// no resourceVersion, whatever is observed is newer.
func Newest[T any, P Observed[T]](known *T, o T) *T {
	uid, version := P(&o).Version()
	gone := *P(&o).Vanished()
	if known == nil {
		if gone {
			return nil
		}
		return &o
	}
	knownUID, knownVersion := P(known).Version()
	switch {
	case uid != knownUID && (gone || !Newer(version, knownVersion)):
		return known
	case uid != knownUID:
		return &o
	case *P(known).Vanished() && (gone || knownVersion != ""):
		return known
	case gone:
		return Gone[T, P](known)
	case !Newer(version, knownVersion):
		return known
	default:
		return &o
	}
}

// Track is Newest for the object that an entity is about: another one of its name does not take its place, but is the
// next. Two objects of one name never exist at once, so a newer one proves that the one before is gone.
//
// What is observed first in a new epoch (again, see Memory) counts whatever its version, also where the object's end
// was seen. It may be older than what is true all the same: another one is the next, and reading shows whether the
// current one is gone.
func Track[T any, P Observed[T]](current, next *T, o T, again bool) (_, _ *T) {
	uid, version := P(&o).Version()
	gone := *P(&o).Vanished()
	currentUID, currentVersion := "", ""
	if current != nil {
		currentUID, currentVersion = P(current).Version()
	}
	switch {
	case again && !gone && uid == currentUID:
		return &o, nil
	case again && !gone:
		return current, &o
	case current != nil && uid == currentUID:
		return Newest[T, P](current, o), next
	case !gone && current != nil && !Newer(version, currentVersion):
		return current, next
	case !gone:
		return Gone[T, P](current), Newest[T, P](next, o)
	}
	if next != nil {
		if nextUID, _ := P(next).Version(); nextUID == uid {
			next = nil
		}
	}
	return current, next
}

// StillNext is what may be the next object where the current one was read (nil: there is none): what is not newer than
// that was observed before it.
func StillNext[T any, P Observed[T]](next, current *T) *T {
	if next == nil || current == nil {
		return next
	}
	_, version := P(next).Version()
	if _, read := P(current).Version(); !Newer(version, read) {
		return nil
	}
	return next
}

// Absent is Gone for an object whose absence was read. What is observed of its name from then on counts whatever its
// version: where etcd was put back, versions have run backwards, and the same object may come back.
func Absent[T any, P Observed[T]](known *T) *T {
	last := Gone[T, P](known)
	if last != nil {
		P(last).Unversion()
	}
	return last
}

// Gone is what was last known of an object, and that it exists no more. What was answered to a query does not change
// under it.
func Gone[T any, P Observed[T]](known *T) *T {
	if known == nil {
		return nil
	}
	last := *known
	*P(&last).Vanished() = true
	return &last
}
