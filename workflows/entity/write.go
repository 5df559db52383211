package entity

import (
	"errors"

	"github.com/virtflow/virtflow/workflows/contract"
)

// StatusWrites is what an entity knows of the status that it writes. S is that status.
type StatusWrites[S any] struct {
	// Written is the status as last written; nil: this workflow has written none.
	Written *S `json:"written,omitempty"`
	// OutcomeUnknown says that a later write failed or met another version, and may have been done all the same.
	OutcomeUnknown bool `json:"outcomeUnknown,omitempty"`
	// Conflicts counts writes in a row that met another version of the object in which there was nothing new.
	Conflicts Conflicts `json:"conflicts,omitempty"`
}

// Unanswered notes that the outcome of a write of that status is unknown (nil: it did not write any).
func (w *StatusWrites[S]) Unanswered(status *S) { w.OutcomeUnknown = w.OutcomeUnknown || status != nil }

// Patch is a patch of the object that an entity is about. S is the object's status, T an observation of it.
type Patch[S, T any] struct {
	Kind, UID string
	// Version is the resourceVersion that the patch is locked by: the last that was seen before it was sent.
	Version string
	// Status is the one that it writes; nil: none.
	Status *S
	// Seen is where the state keeps what was seen of the object. Believe takes in what was read of it, whatever the
	// order of the versions seems to be; Observe goes by that order.
	Seen    **T
	Believe func(*T)
	Observe func(T)
	// Written takes in what else is true once the patch is written; nil: nothing.
	Written func()
}

// Wrote takes in what became of a patch that was answered. An error says that it met another version in which there was
// nothing new, once more: the same patch would meet the same.
func Wrote[S, T any, P Observed[T]](w *StatusWrites[S], p Patch[S, T], r contract.Patched[T]) error {
	if r.Gone {
		*p.Seen = Gone[T, P](*p.Seen)
	}
	if r.Written {
		w.Conflicts = 0
		if p.Status != nil {
			w.Written, w.OutcomeUnknown = p.Status, false
		}
		if p.Written != nil {
			p.Written()
		}
	}
	if r.Conflict {
		w.Unanswered(p.Status) // what it met may be its own first attempt, whose answer was lost
		return met[S, T, P](w, p, r.Current)
	}
	if r.Current != nil {
		p.Observe(*r.Current)
	}
	return nil
}

// met takes in what a patch met instead of its version: the object as it is now.
func met[S, T any, P Observed[T]](w *StatusWrites[S], p Patch[S, T], now *T) error {
	if now != nil {
		_, version := P(*p.Seen).Version()
		uid, _ := P(now).Version()
		if uid == p.UID && version == p.Version && !*P(*p.Seen).Vanished() {
			p.Believe(now)
		} else { // there has been word of it while the patch was under way
			p.Observe(*now)
		}
	}
	_, version := P(*p.Seen).Version()
	return w.Conflicts.met(*P(*p.Seen).Vanished() || version != p.Version, p.Kind, p.Version)
}

// Conflicts counts writes in a row that met another version of the object in which there was nothing new.
type Conflicts int

// met notes what a write of that version met instead: news, or once more the same. The error of the second time says
// that the same write would meet the same.
func (c *Conflicts) met(news bool, kind, version string) error {
	if news {
		*c = 0
		return nil
	}
	if *c++; *c < 2 {
		return nil
	}
	return errors.New("the " + kind + " is said to have changed, and has not: its version is still " + version)
}
