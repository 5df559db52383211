package entity

import "slices"

// Logic is with which changes a run began. The state of an entity embeds it; each run sets it again, and a state that
// replaces another within the run has the same. The zero value has all changes.
type Logic struct{ lacks []string }

// LogicWithout returns the logic of a run that began before these changes.
func LogicWithout(changes ...string) Logic { return Logic{lacks: changes} }

// HasChange reports whether the run began with a change: one of contract.Changes. Where it did not, as its history was
// recorded by an earlier release, it keeps to what that release did.
func (l *Logic) HasChange(id string) bool { return !slices.Contains(l.lacks, id) }
