// Package migrationqueue is the queue of migrations: one workflow decides which of them may begin, within the limits of
// migrations at a time in the cluster and from one node. It learns of each from the migration itself, which requests
// admission, and from crdwatch, which sends the object's current state. So a queue that was lost rebuilds itself.
//
//	state.go    what is known of each migration, and how signals change it
//	rules.go    which migration is admitted, in which order, and why another is not
//	plan.go     the next step, and when to plan again
//	actions.go  the steps: reading the limits, signalling migrations
//	workflow.go the loop, the queries and the details that people read
//	controls.go the controls that a person may send
package migrationqueue
