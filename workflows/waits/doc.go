// Package waits has what entities wait for when they have no next step.
//
//	waits.go  a wait: its kind, and its sentence
//	kinds.go  the kinds of waits, and the table of their sentences
package waits
