// Package replicaset is the entity that owns one VirtualMachineInstanceReplicaSet object, and its transition.
//
//	state.go      what is known, and how observations are folded into it
//	needs.go      what there is, what is missing, and which replicas go first
//	plan.go       the planner: what to do next, from the state alone
//	status.go     the status that users see, from the state alone
//	actions.go    the steps themselves
//	controls.go   what a person may ask of it
//	open.go       how the transition begins and how it ended
//	scale.go      who scaled the set
//	workflow.go   the loop
//	replicate.go  replicate as a child workflow with a deadline
//
// What happens when somebody scales a set: the wanted number differs from the active replicas (needs.go), the planner
// opens a replicate transition (plan.go), and the child makes or deletes instances in batches and waits until they run
// or are gone (replicate.go). A replica that ends or vanishes later is replaced by another transition. A set has no
// finalizer: its instances are its dependents, and Kubernetes' garbage collector deletes or orphans them as whoever
// deleted the set has asked.
package replicaset
