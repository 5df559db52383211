// Package entity is the loop that every entity workflow runs: fold in the signals that arrived, ask a pure planner for
// the next step, do it, and repeat until the planner has none; then sleep until a signal, a timer or the end of a task.
// Between two steps it continues as new when it was asked to or its history has grown long. The next run finds an open
// transition by its workflow ID.
//
// The state that survives Continue-As-New is one JSON-serialisable struct. Timers and futures do not survive, so the
// state holds absolute times, and the planner returns when to plan again.
//
// What entities have in common is here, too:
//
//	loop.go, decision.go, failure.go     the loop, a planner's answer, and the back-off after a failed step
//	write.go                             the outcome of a patch of the object: written, gone, or another version
//	transition.go, children.go           the open transition: its record, opening, progress, cancellation, detaching
//	child.go                             the transition's own side: progress from its entity, and its details
//	controls.go, subject.go, approval.go a person's controls: hold, release, cancel, approve, retry, and their guard
//	repair.go, identity.go               correcting a state, and what no correction may change
//	manual.go, hold.go, reports.go       the record of who did what
//	track.go, epoch.go, versions.go      which of two observations is newer, and whether the state may be old
//	calls.go, batch.go, backoff.go       activities with their limits, and back-offs
//	changes.go, logic.go, json.go        the logic that a run keeps to; how a state is encoded
//	events.go, attributes.go             Kubernetes events, each once; search attributes
//	metrics.go                           how long transitions take, and which steps fail
package entity
