// Package entity is the loop that every entity workflow runs: take in what arrived, ask a pure planner for the next step, do it, and
// again until the planner has none; then sleep until a signal, a timer or a finished task. It continues as new in exactly one
// place, and only when nothing is open.
//
// The state that survives Continue-As-New is one JSON-serialisable struct. Timers and futures do not survive, so the state holds
// absolute times, and the planner says when it wants to be asked again.
package entity
