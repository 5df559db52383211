// Package runstrategy says what a VirtualMachine asks for: KubeVirt's run strategies as a table, and the desired action
// for a VM and its instance as they are observed. It is pure.
//
//	table.go    the table: strategy × situation of the instance × pending request
//	observed.go situation, request and desired action, from observations
//
// The VM entity plans by it. Whoever is about to do something destructive asks it again, with what is true at that
// moment.
package runstrategy
