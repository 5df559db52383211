// Package upgrade moves the workflows that run to the logic of this release: entities with the logic of another release
// continue as new, and workflows that this release cannot replay are terminated.
//
//	updater.go  both, each at its own rate
package upgrade
