// Package drain is the transition that moves the guests away from a node. It reads them from Kubernetes at intervals;
// its state has how far each guest is, and why.
//
//	state.go     the guests, and how far each is
//	plan.go      the next step
//	workflow.go  the steps, and the loop
//	controls.go  the controls that a person may send
//	words.go     the texts on its progress
package drain
