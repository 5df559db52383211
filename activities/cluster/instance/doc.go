// Package instance makes the VirtualMachineInstance object of a VirtualMachine, as KubeVirt's controller and webhooks
// together do. Pure functions.
package instance
