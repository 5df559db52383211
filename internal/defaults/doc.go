// Package defaults fills in what a user left out of a VirtualMachine or VirtualMachineInstance, as KubeVirt v1.9.0's
// mutating webhooks do. It is pure: the API server uses it on what users send, and whoever makes a
// VirtualMachineInstance on virtflow's behalf uses it on what it is about to send, because virtflow's own writers do
// not pass through the webhooks.
package defaults
