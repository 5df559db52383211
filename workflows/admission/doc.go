// Package admission is the queue of migrations: one workflow that says which of them may begin, within the limits of
// migrations at a time in the cluster and from one node. It hears of each from the migration itself, which asks, and
// from crdwatch, which sends what is true: so a queue that was lost rebuilds itself.
//
//	state.go    what is known of each migration, and how signals change it
//	rules.go    who is admitted, in which order, and why another is not
//	plan.go     what is to be done now, and when next
//	actions.go  what does it: reading the limits, telling migrations
//	workflow.go the loop, and what people see
//	controls.go what a person may ask of it
package admission
