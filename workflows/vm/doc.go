// Package vm is the entity that owns one VirtualMachine object, and its transitions.
//
//	state.go      what is known, and how observations are folded into it
//	plan.go       the planner: what to do next, from the state alone
//	controls.go   what a person may ask of it: hold, release, approval and the like
//	backoff.go    the pause after instances that never ran
//	conditions.go the conditions, from the state alone
//	status.go     the status that users see, from the state alone
//	actions.go    the steps themselves
//	workflow.go   the loop
//	transition.go start, stop and restart as child workflows with a deadline
//
// What happens when somebody stops a VM: its strategy becomes Halted (state.go), the table asks for a stop (internal/runstrategy), the
// planner opens one (plan.go), and the child deletes the VMI and waits until it is gone (transition.go).
package vm
