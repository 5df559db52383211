package entity

// Observed is an observation of one Kubernetes object, by pointer: the object's UID, its version, and whether it is
// gone.
type Observed[T any] interface {
	*T
	// Version returns the object's UID and version.
	Version() (uid, resourceVersion string)
	// Vanished returns the field that is set when the object is gone.
	Vanished() *bool
	// Unversion drops the version.
	Unversion()
}

// Newest folds an observation into what is known of an object (nil: nothing), and returns the newer of the two; known
// itself where o adds nothing, since an observation may come twice, late and out of order. An object that is gone does
// not come back, but another one of its name may have taken its place. Where only its absence was read, and known has
// no resourceVersion, any observation is newer.
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
		return AsGone[T, P](known)
	case !Newer(version, knownVersion):
		return known
	default:
		return &o
	}
}

// Track is Newest for an entity's own object: another one of its name does not replace it, but becomes the next one.
// Two objects of one name never exist at once, so a newer one proves that the one before is gone.
//
// The first observation in a new epoch (newEpoch, see Memory) counts whatever its version, also where the object's end
// was seen. It may be old all the same: another object becomes the next one, and a read shows whether the current one
// is gone.
func Track[T any, P Observed[T]](current, next *T, o T, newEpoch bool) (_, _ *T) {
	uid, version := P(&o).Version()
	gone := *P(&o).Vanished()
	currentUID, currentVersion := "", ""
	if current != nil {
		currentUID, currentVersion = P(current).Version()
	}
	switch {
	case newEpoch && !gone && uid == currentUID:
		return &o, nil
	case newEpoch && !gone:
		return current, &o
	case current != nil && uid == currentUID:
		return Newest[T, P](current, o), next
	case !gone && current != nil && !Newer(version, currentVersion):
		return current, next
	case !gone:
		return AsGone[T, P](current), Newest[T, P](next, o)
	}
	if next != nil {
		if nextUID, _ := P(next).Version(); nextUID == uid {
			next = nil
		}
	}
	return current, next
}

// StillNext returns the next object, after current was read (nil: there is none): one that is not newer than current
// was observed before it, and is dropped.
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

// AsAbsent is AsGone for an object whose absence was read. Any later observation of its name counts: where etcd was put
// back, versions have run backwards, and the same object may come back.
func AsAbsent[T any, P Observed[T]](known *T) *T {
	last := AsGone[T, P](known)
	if last != nil {
		P(last).Unversion()
	}
	return last
}

// AsGone returns a copy of what was last known of an object, marked as gone. It is a copy since a query's answer must
// not change.
func AsGone[T any, P Observed[T]](known *T) *T {
	if known == nil {
		return nil
	}
	last := *known
	*P(&last).Vanished() = true
	return &last
}
