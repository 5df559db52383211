// Package node is the entity of one node: it decides whether virtual machines may be placed there, writes the labels
// with what its host can do, and opens the drains that move guests away.
//
//	state.go        the state, and how observations and reports are folded into it
//	plan.go         the planner: the next step, from the state alone
//	status.go       whether virtual machines may be placed there: the labels and events, from the state alone
//	capabilities.go the labels that say what the host offers guests
//	drain.go        when a drain begins, its progress, and what follows from its outcome
//	actions.go      the steps
//	controls.go     the controls that a person may send
//	workflow.go     the loop
package node
