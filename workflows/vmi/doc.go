// Package vmi is the entity that owns one VirtualMachineInstance object: its launcher pods, their domains and its
// status.
//
//	state.go       the state, and how observations are folded into it
//	launcher.go    one launcher pod: its observations, and what was done to it
//	launchers.go   the set of pods, and which is the current one, in which the guest runs
//	phases.go      the phases as a table of transitions
//	phasedurations.go  how long the instance was in each phase
//	plan.go        the planner: the next step, from the state alone
//	gate.go        until when a status that is about to change again is not written
//	status.go      the status that users see, from the state alone
//	reservation.go the reservation: the consent to one migration
//	migrations.go  which migration gets it, and what was written of the last one
//	answer.go      the answers to migrations
//	moves.go       the guest on its way from one pod to another
//	arrival.go     the moments after a move, until pod and agent are ready
//	progress.go    the progress of a guest's copy
//	eviction.go    a guest that is asked to leave its node
//	volumes.go     the PVCs of its volumes, which may not exist yet
//	orphans.go     pods whose migration no longer exists
//	lost.go        a node that does not answer, and the proof that its guests are off
//	controls.go    controls, by which a person acts on the entity
//	operations.go  operations on a running guest: pause, reset and the like
//	requests.go    which requests for an operation are refused, as a table
//	waits.go       what the VMI shows of each wait
//	warning.go     the pod's events, where its status has no reason
//	actions.go     the steps: activities, and how their results change the state
//	workflow.go    the loop
//
// A VMI boots once and ends once, so its workflow is the record of both, without a child workflow.
package vmi
