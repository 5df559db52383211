// Package defaults fills in fields that a user has left out of a VirtualMachine or VirtualMachineInstance, as KubeVirt
// v1.9.0's mutating webhooks do. It is pure. The API server applies it to users' requests. virtflow's own writers of
// VirtualMachineInstances apply it before they send, because they do not pass through the webhooks.
package defaults
