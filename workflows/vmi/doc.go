// Package vmi is the entity that owns one VirtualMachineInstance object: its launcher pods, their domains and its
// status.
//
//	state.go    what is known, and how observations are folded into it
//	launcher.go one launcher pod: what is known of it, what was done about it, and what is to be
//	launchers.go which of several the guest runs in
//	phases.go   the phases as a table of transitions
//	plan.go     the planner: what to do next, from the state alone
//	status.go   the status that users see, from the state alone
//	claims.go   which migration may move the guest, and what it and the instance tell each other
//	claimed.go  the step that tells it
//	moves.go    the guest on its way from one pod to another
//	arrival.go  the guest that has just been moved, of which not everything has caught up
//	progress.go how far a guest's copy is
//	volumes.go  the claims that its volumes are on, which may not be there yet
//	orphans.go  pods whose migration is gone
//	lost.go     a node that does not answer, and what proves that its guests are off
//	controls.go what a person may ask of it
//	operations.go what is done to a running guest: pause, reset and the like
//	waits.go    what is shown of everything that is waited for
//	actions.go  the steps themselves: activities and what their results change
//	workflow.go the loop
//
// A VMI boots once and ends once, so its workflow is the record of both: no child workflow stands between.
package vmi
