// Package runstrategy decides what a VirtualMachine asks for: KubeVirt's run strategies as a table, and the desired
// action for a VM and its instance from their observations. It is pure.
//
//	table.go    the table: strategy × situation of the instance × pending request
//	observed.go situation, request and desired action, from observations
//
// The VM entity plans by it. Activities with a destructive step call it again, with the state at that moment.
package runstrategy
