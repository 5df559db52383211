// Package drain is the transition that moves the guests away from a node. What there is to move it reads from
// Kubernetes, again and again while it goes on; what it remembers is how each came to be as it is.
//
//	state.go     the guests, and how each stands
//	plan.go      what is to be done next
//	workflow.go  the steps, and the loop
//	controls.go  what a person may ask of it
//	words.go     how far it is, in words
package drain
