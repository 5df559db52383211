// Package migration is the entity that owns one VirtualMachineInstanceMigration object: its status, its target's pod,
// and the order of steps that move the guest there.
//
//	state.go          what is known, and how observations are folded into it
//	reservation.go    the signals to the instance, which reserve it, and their answers
//	admission.go      the signals to the migration queue, which admit the migration, and their answers
//	adopt.go          how a run without memory takes over a migration
//	verdict.go        where the guest is, by the state of both ends: a table
//	inspection.go     the last reports of both ends, and what follows from their verdict
//	phases.go         the phases as a table of transitions
//	causes.go         what ends a migration before its guest is moved
//	plan.go           the planner: what to do next, from the state alone
//	ending.go         the planner's part for a migration whose result is known
//	status.go         the status that users see, from the state alone
//	words.go          KubeVirt's messages and events
//	actions.go        steps that are calls to Kubernetes, and signals
//	nodeactivities.go steps that are activities on the source's and the target's node
//	controls.go       the controls that a person may send
//	workflow.go       the loop
//
// What happens when a node dies during a migration: the outcome of the move is unknown, and both ends are inspected
// until the table in verdict.go shows where the guest is; inspection.go applies it. Where that cannot be known, the
// migration waits for the node, or for its fencing, with condition NodeLost. unknownoutcome_test.go plays the cases.
//
// The instance's entity consents before anything is begun (a reservation), and alone writes the instance's status. A
// guest resumes at its target only with the source's proof that it can never run there again. What libvirt reports at
// both ends decides, never this workflow's memory. A failed migration is final.
package migration
