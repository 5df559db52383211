// Package observe turns Kubernetes objects into the observations that workflows get, and decides which change of an
// observation is worth sending. Its functions are pure: they do no I/O and read no clock.
//
// Strings that a user can write are capped, so that no observation grows with the size of an object.
package observe
