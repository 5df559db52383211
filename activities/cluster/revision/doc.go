// Package revision compares a VirtualMachine with the specification that its instance was started with, and says what
// follows for the running instance: what it can take over live, and whether the rest needs a restart. Pure functions,
// KubeVirt's rules.
//
//	fields.go   which fields differ, by path
//	verdict.go  what each difference means
//	patch.go    the JSON patch of the instance
package revision
