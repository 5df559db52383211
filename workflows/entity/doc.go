// Package entity is the loop that every entity workflow runs: take in what arrived, ask a pure planner for the next
// step, do it, and again until the planner has none; then sleep until a signal, a timer or a finished task. Between two
// steps it continues as new, when it was asked to or its history has grown long. A transition that is open then is
// found again by its workflow ID.
//
// The state that survives Continue-As-New is one JSON-serialisable struct. Timers and futures do not survive, so the
// state holds absolute times, and the planner says when it wants to be asked again.
//
// What entities do alike is here, too:
//
//	loop.go, decision.go, failure.go     the loop, what a planner answers, and the pause after a step that failed
//	write.go                             what became of a patch of the object: written, gone, or another version
//	transition.go, children.go           the open transition: its record, how it is opened, told, cancelled, given up and found again
//	child.go                             the transition's own side: what it hears, and what it says that it does
//	controls.go, subject.go, approval.go what a person may ask: hold, release, cancel, approve, try again, and the guard that heeds it
//	repair.go, identity.go               correcting a state, and what no correction may change
//	manual.go, hold.go, reports.go       the memory of who did what
//	track.go, memory.go, versions.go     which of two observations is newer, and whether memory may be older than what is true
//	calls.go, batch.go, backoff.go       activities with their limits, and pauses that grow
//	changes.go, json.go                  the logic that a run keeps to; how a state is written
//	announced.go, attributes.go          Kubernetes events, each once; search attributes
//	metrics.go                           how long transitions take, and which steps fail
package entity
