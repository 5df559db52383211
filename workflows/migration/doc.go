// Package migration is the entity that owns one VirtualMachineInstanceMigration object: its status, the pod that is its
// target, and the order in which a guest is moved there.
//
//	state.go    what is known, and how observations are folded into it
//	claim.go    what it says to the instance whose guest is moved, and to the cluster's limits, and what they answer
//	adopt.go    what there is of a migration that this entity does not remember
//	verdict.go  whose the guest is, from what is true at both ends: a table
//	look.go     what is true at both ends, as it was seen last
//	phases.go   the phases as a table of transitions
//	causes.go   what ends a migration before its guest is moved
//	plan.go     the planner: what to do next, from the state alone
//	ending.go   the planner's part for a migration whose result is known
//	status.go   the status that users see, from the state alone
//	words.go    KubeVirt's messages and events
//	actions.go  steps that are calls to Kubernetes, and signals
//	nodes.go    steps that are work on the source's and the target's node
//	controls.go what a person may ask of it
//	workflow.go the loop
//
// The instance's entity consents before anything is begun (a claim), and alone writes the instance's status. A guest
// goes on at its target only with the source's proof that it can never run there again; libvirt's truth at both ends
// decides, never what this entity remembers. A failed migration is final.
package migration
