package entity

import (
	"errors"

	"github.com/virtflow/virtflow/contract"
)

// StatusWrites has what an entity knows of the status that it writes. S is the status.
type StatusWrites[S any] struct {
	// Written is the status as last written; nil: this workflow has written none.
	Written *S `json:"written,omitempty"`
	// OutcomeUnknown is set when a later write failed or met another version, and may have been done all the same.
	OutcomeUnknown bool `json:"outcomeUnknown,omitempty"`
	// Conflicts counts writes in a row that met another version of the object in which nothing had changed.
	Conflicts Conflicts `json:"conflicts,omitempty"`
}

// MarkWriteUnknown marks the outcome of a write of that status as unknown (nil: it had no status).
func (w *StatusWrites[S]) MarkWriteUnknown(status *S) {
	w.OutcomeUnknown = w.OutcomeUnknown || status != nil
}

// Patch is a patch of an entity's own object. S is the object's status, T an observation of it.
type Patch[S, T any] struct {
	Kind, UID string
	// Version is the resourceVersion that locks the patch: the last one that was seen before it was sent.
	Version string
	// Status is the one that it writes; nil: none.
	Status *S
	// Seen is the state's field with the object's observation. Replace takes over what was read of it, whatever the
	// order of the versions; Observe goes by that order.
	Seen    **T
	Replace func(*T)
	Observe func(T)
	// Written is called when the patch is written; nil: nothing is.
	Written func()
}

// FoldAnswer folds in the answer to a patch. An error is returned when the patch repeatedly met another version in
// which nothing had changed: the same patch would meet it again.
func FoldAnswer[S, T any, P Observed[T]](w *StatusWrites[S], p Patch[S, T], r contract.Patched[T]) error {
	if r.Gone {
		*p.Seen = AsGone[T, P](*p.Seen)
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
		w.MarkWriteUnknown(p.Status) // the conflict may be with its own first attempt, whose answer was lost
		return foldConflict[S, T, P](w, p, r.Current)
	}
	if r.Current != nil {
		p.Observe(*r.Current)
	}
	return nil
}

// foldConflict folds in the object as it is now, which a patch met instead of its version.
func foldConflict[S, T any, P Observed[T]](w *StatusWrites[S], p Patch[S, T], now *T) error {
	if now != nil {
		_, version := P(*p.Seen).Version()
		uid, _ := P(now).Version()
		if uid == p.UID && version == p.Version && !*P(*p.Seen).Vanished() {
			p.Replace(now)
		} else { // an observation arrived while the patch was under way
			p.Observe(*now)
		}
	}
	_, version := P(*p.Seen).Version()
	return w.Conflicts.count(*P(*p.Seen).Vanished() || version != p.Version, p.Kind, p.Version)
}

// Conflicts counts writes in a row that met another version of the object in which nothing had changed.
type Conflicts int

// count records what a write of that version met instead: a change, or the same object again. The error of the second
// time stands for all further writes: they would meet the same.
func (c *Conflicts) count(news bool, kind, version string) error {
	if news {
		*c = 0
		return nil
	}
	if *c++; *c < 2 {
		return nil
	}
	return errors.New("the API server reports a conflict, but the " + kind + " is unchanged: its version is still " +
		version)
}
