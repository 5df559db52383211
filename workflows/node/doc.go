// Package node is the entity that owns what virtflow knows of one node: whether virtual machines may be placed there,
// and what its host can do. It writes labels, and opens the drains that move guests away.
//
//	node.go         what is known, the planner, the steps and the loop
//	capabilities.go the labels that say what the host offers guests
//	drain.go        when a drain begins, what it is told, and what follows from how it ended
//	controls.go     what a person may ask of it
package node
