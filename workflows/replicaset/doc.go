// Package replicaset is the entity that owns one VirtualMachineInstanceReplicaSet object, and its transition.
//
//	state.go      the state, and how observations are folded into it
//	needs.go      the missing and surplus replicas, and their order of removal
//	plan.go       the planner: the next step, from the state alone
//	status.go     the status that users see, from the state alone
//	actions.go    the steps
//	controls.go   controls, by which a person acts on the entity
//	open.go       opening the transition, and its outcome
//	actor.go      the user who scaled the set
//	workflow.go   the loop
//	replicate.go  replicate as a child workflow with a deadline
//
// What happens when a user scales a set: the desired number differs from the active replicas (needs.go), the planner
// opens a replicate transition (plan.go), and the child makes or deletes instances in batches and waits until they run
// or are gone (replicate.go). A replica that ends or vanishes later is replaced by another transition. A set has no
// finalizer: its instances are its dependents. Kubernetes' garbage collector deletes or orphans them, as the deletion
// of the set requests.
package replicaset
