// Package observe turns Kubernetes objects into the observations that workflows get, and says which change of an
// observation is worth sending. Pure functions: nothing here does I/O or knows the time.
//
// Strings that a user can write are capped, so that no observation grows with the size of an object.
package observe
